// Pairs of document and summary as samples of tokens: part 0 is the document, part 1 the summary, and the id
// is beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/stores/token_store.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::summarization {

using records::PairSource;
using stores::TokenSample;
using text::Sequence;

// How a text becomes tokens. [any-thread]
struct Encoder {
  std::function<std::vector<int32_t>(std::string_view)> encode;
  uint32_t vocabulary_size = 0;
};

// Reads the pairs and calls add() with a sample of each, in order. Texts become tokens on `hooks.threads`
// threads. Memory stays bounded by the batches of texts at hand (a few MiB each, or one record). Throws
// DataError, or Cancelled.
stores::TokenReport read_samples(const PairSource& source, const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add);

// A document and its summary become one sequence of tokens: start, document, separator, summary; the token
// after the last one is the end of text. The document is cut at its end so that the summary always fits. A
// sample without a summary has nothing to be learnt or measured: no target.
struct SequenceRules {
  int64_t max_tokens = 512;  // of the input
  int64_t max_summary_tokens = 64;
  std::vector<int64_t> start = {};  // before the document: what begins a text, where the tokenizer says so
  std::vector<int64_t> separator;   // not empty, and with the start and 2 more within max_tokens
  int64_t end_of_text = 0;
  bool loss_on_all = false;

  // Tokens that every sequence has: start and separator.
  int64_t fixed() const { return static_cast<int64_t>(start.size() + separator.size()); }
  // Equal where all of them are.
  std::string key() const;
};

// The sequence for learning and evaluating.
Sequence make_sequence(const TokenSample& sample, const SequenceRules& rules);

// The prompt for writing a summary: start, document and separator, with room for `new_tokens` (at most
// longest_writing()) more in `max_tokens`.
std::vector<int64_t> make_prompt(const TokenSample& sample, const SequenceRules& rules, int64_t new_tokens);

// The most tokens that may be written so that a prompt keeps at least half of what make_sequence() keeps of a
// long document with a long summary, and some of it in any case: a model that sees less than it learnt from
// writes about nothing.
int64_t longest_writing(int64_t max_tokens, int64_t max_summary_tokens, int64_t separator_tokens);

}  // namespace pipeline::tasks::summarization
