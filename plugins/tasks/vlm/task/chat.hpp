// How a conversation about a picture becomes one sequence of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/chat/sequence.hpp"
#include "plugins/tasks/vlm/data/conversation.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::vlm {

using chat::ChatTokens;
using chat::Sequence;

class Chat {
 public:
  // `style`: auto, or one of chat::template_names(). `patches`: tokens that a picture takes. `max_tokens`:
  // longer conversations are cut.
  Chat(const std::string& style, text::TokenizerPtr tokenizer, int64_t patches, int64_t max_tokens);

  // For learning and evaluating. `with_picture` false: as if there were none, to see what it is worth.
  Sequence sequence(const Conversation& conversation, bool with_picture = true) const;

  // What comes before the answer to turn 2 * `question`; older turns are left out until `new_tokens` fit.
  // Empty if they never do.
  std::vector<int64_t> prompt(const Conversation& conversation, size_t question, int64_t new_tokens,
                              bool with_picture = true) const;

  // The tokens of the answer to that question, its end included.
  std::vector<int64_t> answer(const Conversation& conversation, size_t question) const;

  // What was generated, as a reader sees it; without the end.
  std::string answer_text(const std::vector<int64_t>& tokens) const { return format_.answer_text(tokens); }

  int64_t end_token() const { return format_.end_token(); }  // generation stops there
  const chat::ChatFormat& format() const { return format_; }

 private:
  nlohmann::ordered_json variables(const Conversation& conversation, bool with_picture) const;

  chat::ChatFormat format_;
  bool has_parts_;  // the template wants pictures and texts in a list
  int64_t max_tokens_;
};

}  // namespace pipeline::vlm
