// Conversations as samples of tokens, and the chat template that writes them.
#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/data/messages/conversation_store.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/chat/sequence.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::chat {

// The template that the options name, or the tokenizer's own. The tokenizer carries it from then on. The log
// has what it makes of answers. [main]
std::unique_ptr<const ChatFormat> open_format(const ChatConfig& config, const Context& context,
                                              common::TaskTokenizer& tokenizer, const ConfigErrors& errors);

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
