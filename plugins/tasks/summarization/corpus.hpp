// The data of a run: a tokenizer and, per split, the tokens of its pairs. All of it comes from a cache that
// is filled once.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/data/sources/mixed.hpp"
#include "plugins/tasks/summarization/config.hpp"
#include "plugins/tasks/summarization/token_cache.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::tasks::summarization {

class Corpus {
 public:
  // Opens the caches in the run's cache folder, and makes those that are missing: trains a tokenizer where
  // there is neither `kept` nor one in the configuration, and tokenizes. Says what it dropped from the files.
  // To use a model, files of other splits need not be there. `kept`: the one that the weights were trained
  // with. An evaluation has those test samples that have a summary, unless none has. [main]
  Corpus(const SummarizationConfig& config, const Context& context, const tokenizer::TokenizerPtr& kept);

  // From now on the tokenizer carries what a model's folder says beside its weights. [main]
  void carry(const tokenizer::Files& files);

  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t size(Split split) const {
    if (is_asked(split)) return 1;
    if (split == Split::kTest && !answered_.empty()) return answered_.size();
    return cache(split).size();
  }
  // Samples that have one.
  uint64_t summaries(Split split) const;
  TokenSample sample(Split split, uint64_t id, uint64_t epoch = 0) const;  // [any-thread]
  const sources::Mixed<TokenCache>& training() const { return cache(Split::kTrain); }
  std::string fingerprint(std::initializer_list<Split> splits) const;  // of these and the tokenizer

 private:
  using Caches = sources::Mixed<TokenCache>;
  void open(Split split, const sources::SplitOptions::Sources& wanted, std::vector<TokenCacheSource>&& all,
            const Context& context);
  void leave_out_unanswered(const Context& context);
  bool is_asked(Split split) const { return split == Split::kTest && !asked_.empty(); }
  const Caches& cache(Split split) const { return caches_[static_cast<size_t>(split)]; }

  tokenizer::TokenizerPtr tokenizer_;
  std::array<Caches, 3> caches_;
  std::vector<int32_t> asked_;      // the document that the command line names, in place of the test file
  std::vector<uint64_t> answered_;  // an evaluation's test samples, where not all have a summary
};

}  // namespace pipeline::tasks::summarization
