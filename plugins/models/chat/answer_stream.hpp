// An answer as it is read while it is being written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/models/chat/chat_format.hpp"

namespace pipeline::chat {

// Sends the text of tokens as they come, in whole characters, without what the template puts before an
// answer.
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
