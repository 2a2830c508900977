// How samples are dealt out to the splits.
#pragma once

#include <pipeline/context.hpp>

#include <functional>
#include <string>
#include <vector>

#include "plugins/data/proteins/comparison.hpp"
#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/proteins/splits.hpp"

namespace pipeline::proteins {

// The fewest known residues of one's own data for predictions: only what has nothing to see is left out.
constexpr int64_t kLeastPredicted = 1;

class Division {
 public:
  Division(const ProteinData& options, const Context& context)
      : options_(options),
        context_(context),
        comparison_(options, context_),
        labels_(options.objective, options.label) {}

  // The splits that task.split asks for. Those of sequences are kept in the cache. Throws files::DataError,
  // or an Error where nothing is left.
  Splits of_training_data(const Samples& samples) const;
  // All samples in the test split, grouped by similarity for intervals.
  Splits of_own_test_data(const Samples& samples) const;
  // Says how many of the test samples the weights know: those in `known`, which has the keys of training
  // data, and those like the samples of `training` in it.
  void compare(const Samples& test, const Splits& test_splits, const Samples& training, const Splits& splits,
               const ContentKeys& known) const;

 private:
  Splits kept(const Samples& samples, const std::string& what, const std::function<SplitRows()>& make) const;
  SplitRows divide(const Samples& samples, const std::string& what) const;
  // The samples that are not left out, in their order: with so many known residues at least.
  std::vector<SplitRow> usable(const Samples& samples, int64_t least, std::vector<SplitRow>& left_out,
                               const std::string& what) const;
  // Throws an Error where no sample has a label and one is wanted.
  void require_labels(const Samples& samples, const std::string& what) const;
  void leave_out_unlabelled(const Samples& samples, SplitRows& parts) const;
  void deal_out(const Samples& samples, const std::vector<SplitRow>& rows, bool exact,
                SplitRows& parts) const;
  void deal_out_by_column(const Samples& samples, const SplitList& list, std::vector<SplitRow>&& rows,
                          SplitRows& parts) const;
  void keep_apart(const Samples& samples, const std::vector<SplitRow>& rows, std::vector<Split>& split_of,
                  std::vector<Reason>& reason_of) const;

  const ProteinData& options_;
  const Context context_;
  const Comparison comparison_;
  const Labels labels_;
};

}  // namespace pipeline::proteins
