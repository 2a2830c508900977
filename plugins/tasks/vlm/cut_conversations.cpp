#include "plugins/tasks/vlm/cut_conversations.hpp"

#include "core/base/utf8.hpp"

namespace pipeline::tasks::vlm {

void CutConversations::count(const std::string& name, const chat::Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  ++all_;
  if (!sequence.is_cut) return;
  const bool is_lost = !sequence.has_target();
  if (cut_ + lost_ == 0)
    context_.warn("conversation ", printable(name, ""),
                  " is longer than task.chat.max_tokens = ", max_tokens_,
                  is_lost ? " before its first answer: nothing of it is learnt"
                          : ": it is cut at a turn, with the pictures behind that",
                  "; others like it are counted");
  ++(is_lost ? lost_ : cut_);
}

CutConversations::~CutConversations() {
  if (cut_ + lost_ > 0)
    context_.info("cut        ", cut_ + lost_, " of ", all_,
                  " times a conversation was longer than task.chat.max_tokens = ", max_tokens_, ": ", cut_,
                  " times it was cut at a turn, ", lost_, " times nothing of it was left to learn");
}

}  // namespace pipeline::tasks::vlm
