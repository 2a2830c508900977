// What of a conversation is learnt, and what is read before an answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/stores/token_store.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/chat/sequence.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::conversation {

using messages::Conversation;
using messages::Turn;
using pipeline::chat::ChatFormat;
using pipeline::chat::ChatTokens;
using pipeline::chat::Sequence;

enum class Learn { kAnswers, kLastAnswer, kAll };
Learn learn_named(std::string_view name);  // "answers", "last", "all"

// A conversation as the template writes it, or a text by itself. Throws an Error where it cannot be written.
ChatTokens tokens_of(const Conversation& conversation, const ChatFormat& format);

// The sequence for learning and evaluating, as chat::make_sequence() cuts `chat`, the conversation's tokens;
// with kLastAnswer the turns that come first go instead.
Sequence make_sequence(const Conversation& conversation, ChatTokens chat, const ChatFormat& format,
                       int64_t max_tokens, Learn learn);

// A sequence in parts of which every second one is learnt, the first one not; and back.
std::vector<std::vector<int32_t>> parts_of(const Sequence& sequence);
text::Sequence sequence_of(std::span<const stores::TokenView> parts);

// A sequence as a sample; and back.
std::string pack_sequence(const Sequence& sequence, const Conversation& conversation,
                          uint32_t vocabulary_size);
inline text::Sequence sequence_of(const stores::TokenSample& sample) { return sequence_of(sample.parts); }
Conversation conversation_of(const stores::TokenSample& sample);

// The number of the last turn if it is the assistant's, else that of the answer to come.
size_t answered_turn(const Conversation& conversation);

// What the model reads before it writes turn `turn`; the oldest turns go until there is room for `new_tokens`
// more in `max_tokens`. Empty: the question alone leaves none.
std::vector<int64_t> make_prompt(const Conversation& conversation, size_t turn, const ChatFormat& format,
                                 int64_t max_tokens, int64_t new_tokens);

// What conversations that belong to one part of the data have in common: the first question, or a text by
// itself.
const std::string& first_question(const Conversation& conversation);

// Why a conversation cannot be used, whatever the template; empty: it can.
std::string problem_of(const Conversation& conversation, bool answer_required);
// Why its answers, by its tokens, cannot be learnt.
std::string problem_of(const Conversation& conversation, const ChatTokens& chat);

}  // namespace pipeline::tasks::conversation
