// What of a conversation is learnt, and what is read before an answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/messages/conversation.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/chat/sequence.hpp"

namespace pipeline::tasks::chat {

using messages::Conversation;
using messages::Turn;
using pipeline::chat::ChatFormat;
using pipeline::chat::Sequence;

enum class Learn { kAnswers, kLastAnswer, kAll };
Learn learn_named(std::string_view name);  // "answers", "last", "all"

// For learning and evaluating, as chat::make_sequence() cuts it; with kLastAnswer the turns that come first
// go instead.
Sequence make_sequence(const Conversation& conversation, const ChatFormat& format, int64_t max_tokens,
                       Learn learn);

// The number of the last turn if it is the assistant's, else that of the answer to come.
size_t answered_turn(const Conversation& conversation);

// What the model reads before it writes turn `turn`; the oldest turns go until there is room for `new_tokens`
// more in `max_tokens`. Empty: the question alone leaves none.
std::vector<int64_t> make_prompt(const Conversation& conversation, size_t turn, const ChatFormat& format,
                                 int64_t max_tokens, int64_t new_tokens);

// Why a conversation cannot be used; empty: it can. `format`, if there is one, must be able to write it.
std::string problem_of(const Conversation& conversation, bool answer_required, const ChatFormat* format);

}  // namespace pipeline::tasks::chat
