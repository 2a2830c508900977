// A conversation's tokens as a model learns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/models/chat/chat_format.hpp"

namespace pipeline::chat {

struct Sequence {
  std::vector<int64_t> tokens;   // input
  std::vector<int64_t> targets;  // the token after each input token, -1: no loss
  bool is_cut = false;           // at a turn, or within the first answer
  uint64_t left_out = 0;         // tokens that are behind its end

  bool has_target() const;
};

// Whether the last answer ends within `max_tokens` of input.
bool fits(const ChatTokens& chat, int64_t max_tokens);

// learns(message): whether the answer that this message is has a loss; empty: all tokens have. What is longer
// than `max_tokens` of input ends with the last answer that fits; the first answer is cut within, and has no
// end then. A question is not cut: where even the first one does not fit, nothing but the first token is
// left. What follows the last answer goes, unless all is learnt or there is no answer.
Sequence make_sequence(const ChatTokens& chat, int64_t max_tokens,
                       const std::function<bool(size_t message)>& learns);

// How many of the oldest questions go, so that what is left fits: the smallest count of [from, end) that is
// enough, `end` where none is. Found by halving, as what is enough stays so with more.
size_t fewest(size_t from, size_t end, const std::function<bool(size_t count)>& is_enough);

// An answer that is read while it is being written: sends the text of tokens as they come, in whole
// characters, without what the template puts before an answer.
class AnswerStream {
 public:
  using Send = std::function<void(std::string_view text)>;
  AnswerStream(const ChatFormat& format, Send send) : format_(format), send_(std::move(send)) {}

  void add(int64_t token) {
    tokens_.push_back(token);
    send(false);
  }
  // Nothing follows: what is left is sent as it is.
  void finish() { send(true); }
  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  void send(bool is_all);

  const ChatFormat& format_;
  Send send_;
  std::vector<int64_t> tokens_;
  std::string said_;
};

}  // namespace pipeline::chat
