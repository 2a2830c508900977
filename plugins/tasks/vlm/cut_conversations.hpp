// Conversations that are longer than task.chat.max_tokens.
#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <mutex>
#include <string>

#include "plugins/models/chat/sequence.hpp"

namespace pipeline::tasks::vlm {

// Names the first, and says at the end how often one was met. Safe for concurrent use.
class CutConversations {
 public:
  CutConversations(int64_t max_tokens, Context context) : max_tokens_(max_tokens), context_(context) {}
  ~CutConversations();

  void count(const std::string& name, const chat::Sequence& sequence);

 private:
  const int64_t max_tokens_;
  const Context context_;
  std::mutex mutex_;
  uint64_t all_ = 0, cut_ = 0, lost_ = 0;
};

}  // namespace pipeline::tasks::vlm
