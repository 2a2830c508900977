// Pairs of answers as samples of tokens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/tasks/conversation/sequence.hpp"
#include "plugins/tasks/preference/config.hpp"

namespace pipeline::tasks::preference {

using messages::Conversation;
using stores::TokenSample;

// The sequences of the two answers to a question, of which the answers alone are learnt.
struct Pair {
  conversation::Sequence chosen, rejected;
};

// How the records of a source become pairs. What this refers to must outlive the reading.
struct Recipe {
  const DataOptions& data;
  const conversation::ChatFormat& format;
  tokenizer::TokenizerPtr tokenizer;
  int64_t max_tokens;

  text::Reading reading(const sources::SourceFiles& files, const files::SplitPart& part) const;
  // A question alone.
  std::string asked_sample(const Conversation& conversation) const;

 private:
  // Throws an Error with the reason where the two are no pair.
  Pair pair_of(const Conversation& chosen, const Conversation& rejected) const;
};

// Chosen conversations as they are, for a tokenizer that is trained on them.
messages::Source chosen_source(const sources::SourceFiles& files, const DataOptions& data);

// The sequences of a sample: the chosen one, then the rejected one; of a question alone the first.
std::vector<text::Sequence> sequences_of(const TokenSample& sample);
// The conversation with the chosen answer, and with the rejected one.
Conversation chosen_of(const TokenSample& sample);
Conversation rejected_of(const TokenSample& sample);

}  // namespace pipeline::tasks::preference
