// Conversations as samples of tokens.
#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <string>

#include "plugins/data/messages/conversation_store.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/conversation/sequence.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::chat {

using conversation::answered_turn;
using conversation::ChatFormat;
using conversation::ChatTokens;
using conversation::Conversation;
using conversation::conversation_of;
using conversation::first_question;
using conversation::Learn;
using conversation::learn_named;
using conversation::make_prompt;
using conversation::make_sequence;
using conversation::pack_sequence;
using conversation::problem_of;
using conversation::Sequence;
using conversation::sequence_of;
using conversation::tokens_of;

// What decides which conversations of a source can be used, and what of them is learnt.
struct Recipe {
  const DataOptions& data;
  const ChatFormat& format;
  tokenizer::TokenizerPtr tokenizer;
  int64_t max_tokens;
  Learn learn;

  // `answer_required`: for learning and evaluating. What this refers to must outlive the result.
  text::Reading reading(const sources::SourceFiles& files, const files::SplitPart& part,
                        bool answer_required) const;
  // A conversation that may want its answer as a sample: its tokens, or those of its prompt where the
  // template writes none without an answer. Throws an Error where it cannot be used.
  std::string asked_sample(const Conversation& conversation) const;

 private:
  struct Counts;
  std::string answered_sample(const Conversation& conversation, Counts& counts) const;
  std::string packed(const Sequence& sequence, const Conversation& conversation) const {
    return pack_sequence(sequence, conversation, static_cast<uint32_t>(tokenizer->vocab_size()));
  }
};

// Conversations as they are, for a tokenizer that is trained on them.
messages::Source plain_source(const sources::SourceFiles& files, const DataOptions& data);

}  // namespace pipeline::tasks::chat
