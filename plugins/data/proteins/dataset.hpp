// The data of a run: the samples of each split.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/proteins/comparison.hpp"
#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/proteins/splits.hpp"

namespace pipeline::proteins {

const char* name_of(Split split);  // "training", "validation" or "test"

class Dataset {
 public:
  // Reads what is not in the cache, groups what belongs together and deals the groups out to the splits; says
  // what there is and what was left out. learnt: what the weights that are to be used have learnt from;
  // nullptr: nobody knows. Throws an Error if there is nothing to learn from, or too many files are unusable.
  // [main]
  Dataset(const ProteinData& options, const Context& context, const Learnt* learnt);
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  // All [any-thread].
  uint64_t size(Split split) const { return splits_of(split).size(static_cast<size_t>(split)); }
  SplitRow row(Split split, uint64_t id) const;
  Sample sample(Split split, uint64_t id) const { return of(split, id, &Samples::sample); }
  std::string name(Split split, uint64_t id) const { return of(split, id, &Samples::name); }
  // What names of the sample's files begin with, and what its tensor is called.
  std::string file(Split split, uint64_t id) const { return of(split, id, &Samples::file); }
  std::string tensor(Split split, uint64_t id) const { return of(split, id, &Samples::tensor); }
  std::string group(Split split, uint64_t id) const;  // its cluster where the data name it; else empty
  // The chains' names, by number in the sample.
  std::vector<std::string> chain_names(Split split, uint64_t id) const {
    return of(split, id, &Samples::chain_names);
  }
  uint64_t key(Split split, uint64_t id) const;  // what the sample is
  SampleLabels labels(Split split, uint64_t id) const;
  // The labels of all that was read for training, held-out parts included; none where nothing was.
  records::LabelCounts label_counts() const;
  const std::string& fingerprint() const { return fingerprint_; }
  // The training split's, one added to each count; all the same where there is no training data.
  Frequencies frequencies() const;
  // The data of a training with these splits.
  Learnt learnt() const;

  // How many of a split's samples have a chain of the training data, and how many others one that was in the
  // validation split then.
  struct Seen {
    uint64_t training = 0, validation = 0;
  };
  Seen seen(Split split, const Learnt& learnt) const;

  // A row for each sample: its name, its cluster by number, its split and why. As CSV, which task.split.list
  // can be, too; a file that is there is replaced.
  void write_table(const std::string& path) const;

 private:
  template <class Result>
  Result of(Split split, uint64_t id, Result (Samples::*what)(uint64_t) const) const {
    return files::with_data_errors([&] { return (samples_of(split).*what)(row(split, id).sample); });
  }
  const Samples& samples_of(Split split) const { return is_own(split) ? *test_samples_ : *samples_; }
  const Splits& splits_of(Split split) const { return is_own(split) ? test_splits_ : splits_; }
  bool is_own(Split split) const { return own_test_ && split == Split::kTest; }
  bool needs_training_data() const;
  void describe() const;
  void warn_of_equal_sequences() const;

  const ProteinData& options_;
  const Labels labels_;
  const Context context_;
  const bool own_test_;  // task.test_path is the test split of this run
  std::unique_ptr<const Samples> samples_, test_samples_;
  Splits splits_, test_splits_;
  std::string fingerprint_;
};

}  // namespace pipeline::proteins
