// How a conversation becomes one sequence of tokens with targets, and how a long one is cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/messages/conversation.hpp"
#include "plugins/models/chat/chat_format.hpp"

namespace pipeline::chat {

using messages::Conversation;
using messages::Turn;

enum class Learn { kAnswers, kLastAnswer, kAll };
Learn learn_named(std::string_view name);  // "answers", "last", "all"

struct Sequence {
  std::vector<int64_t> tokens;   // input
  std::vector<int64_t> targets;  // the token after each input token, -1: no loss
  bool is_cut = false;           // at a turn, or within the only answer that is left

  bool has_target() const;
};

// For learning and evaluating. Of a conversation of more than `max_tokens` the turns that come last go, up to
// the end of an answer, and with kLastAnswer those that come first; the answer that is left is cut within
// where even it does not fit.
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

}  // namespace pipeline::chat
