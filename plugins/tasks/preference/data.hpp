// Pairs of answers as samples of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/tasks/conversation/sequence.hpp"
#include "plugins/tasks/preference/config.hpp"

namespace pipeline::tasks::preference {

using messages::Conversation;
using stores::TokenSample;

// How the records of a source become samples: pairs, or answers that are judged by themselves. What this
// refers to must outlive the reading.
struct Recipe {
  const DataOptions& data;
  const conversation::ChatFormat& format;
  tokenizer::TokenizerPtr tokenizer;
  int64_t max_tokens;
  bool is_unpaired;
  bool is_scored;   // of a sequence its last token has a target, which does not matter
  int64_t padding;  // goes at the end of those

  text::Reading reading(const sources::SourceFiles& files, const files::SplitPart& part) const;
  // The tokens at whose end a conversation is scored.
  std::vector<int64_t> scored(std::vector<int64_t> tokens) const {
    while (tokens.size() > 1 && tokens.back() == padding) tokens.pop_back();
    return tokens;
  }
  // A question alone.
  std::string asked_sample(const Conversation& conversation) const;

 private:
  // These throw an Error with the reason where there is no pair, or no answer.
  conversation::Sequence sequence_of(const Conversation& one, size_t question_turns, const char* which) const;
  std::string pair_of(const Conversation& chosen) const;
  std::string answers_of(const Conversation& judged) const;
};

// Chosen conversations as they are, for a tokenizer that is trained on them.
messages::Source chosen_source(const sources::SourceFiles& files, const DataOptions& data, bool is_unpaired);

// The sequences of a sample: of a pair the chosen one, then the rejected one; else the only one.
std::vector<text::Sequence> sequences_of(const TokenSample& sample);
// The conversation of its first sequence, and with the rejected answer of a pair.
Conversation conversation_of(const TokenSample& sample);
Conversation rejected_of(const TokenSample& sample);
// Whether the answer of a sample by itself is wanted.
bool is_wanted(const TokenSample& sample);

// The question of one sequence with the answer of another, of at most so many tokens of input.
text::Sequence crossed(const text::Sequence& question, const text::Sequence& answer, int64_t max_tokens);

}  // namespace pipeline::tasks::preference
