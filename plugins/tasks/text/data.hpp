// The data of a text task: for each split, samples of tokens in the cache, which are made once.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/options.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/sources/mixture.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/data/stores/token_store.hpp"

namespace pipeline::tasks::common {
class TaskTokenizer;
}
namespace pipeline::tokenizer {
struct TrainingTexts;
}

namespace pipeline::tasks::text {

// What is learnt of a sample.
struct Sequence {
  std::vector<int64_t> tokens;   // input
  std::vector<int64_t> targets;  // the token after each input token, -1: no loss
};

// How the records of a source become samples: the task's recipe.
struct Reading {
  // Equal where the same part of the same files gives the same samples with the same tokenizer.
  std::string options;
  // Calls add() with each sample. Throws DataError where the files cannot be read, or have changed.
  std::function<stores::TokenReport(const stores::TokenSink& add, const files::Hooks& hooks)> read;
};

class Corpus {
 public:
  using ReadingOf =
      std::function<Reading(const sources::SourceFiles& files, Split split, const files::SplitPart& part)>;

  // Reads nothing. All but `context` must outlive this.
  Corpus(const sources::SplitOptions& data, const Context& context, const common::TaskTokenizer& tokenizer,
         ReadingOf reading, const ConfigErrors& errors)
      : data_(data),
        context_(context),
        tokenizer_(tokenizer),
        reading_(std::move(reading)),
        errors_(errors) {}

  // A split's sources. A model can be used where its files are not: those that are missing then are named in
  // the log, and the split is empty. Throws DataError. [main]
  std::vector<sources::SourceFiles> sources_of(Split split) const;
  // All texts that are trained on, for a tokenizer of `size` tokens. source_of: how one of their sources is
  // read.
  using SourceOf =
      std::function<records::PairSource(const sources::SourceFiles& files, const files::SplitPart& part)>;
  tokenizer::TrainingTexts training_texts(const SourceOf& source_of, int64_t size) const;
  files::Hooks hooks(const std::string& what) const;

  // Opens the stores of a split in the run's cache folder, and fills those that are missing. The log has what
  // was dropped from the files. All other methods do so where it is not yet done, which is [main]. Throws
  // DataError.
  void open(Split split) const;
  // open() of all splits where the run trains, for the rank that prepares.
  void prepare() const;
  // From now on the test split is this sample alone, and no file is read.
  void ask(std::string sample) { asked_ = std::move(sample); }
  // From now on the test split has those samples alone that have something to be compared with, unless none
  // has. `lacks`, for the log: "have no summary".
  void leave_out_unanswered(const char* lacks);
  // What became of the share that is held out for validation, for the log. noun: of samples.
  void log_held_out(const char* noun) const;
  // How many samples there are, for the log. noun: of them.
  void log_sizes(const char* noun) const;

  uint64_t size(Split split) const;
  uint64_t targets(Split split) const;                                             // samples that have one
  stores::TokenSample sample(Split split, uint64_t id, uint64_t epoch = 0) const;  // [any-thread]
  const sources::Mixed<stores::TokenStore>& training() const { return store(Split::kTrain); }
  // For what is learnt and measured. Test data may change in a continued run: training does not see them.
  std::string fingerprint() const;

 private:
  using Stores = sources::Mixed<stores::TokenStore>;
  bool is_asked(Split split) const { return split == Split::kTest && !asked_.empty(); }
  bool trains() const { return context_.run().purpose == PL_PURPOSE_TRAIN; }
  std::string cache_folder() const { return std::string(view(context_.run().cache_dir)); }
  const Stores& store(Split split) const;
  files::Hash128 key(const Reading& reading, const sources::SourceFiles& files,
                     const files::SplitPart& part) const;

  const sources::SplitOptions& data_;
  Context context_;
  const common::TaskTokenizer& tokenizer_;
  ReadingOf reading_;
  const ConfigErrors& errors_;
  mutable std::array<Stores, 3> stores_;
  mutable std::array<bool, 3> is_open_{};
  std::string asked_;               // a sample, packed
  std::vector<uint64_t> answered_;  // of the test split, where it has not all samples
};

}  // namespace pipeline::tasks::text
