// How a conversation about pictures becomes one sequence of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/data/picture_texts/conversation.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/chat/sequence.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::tasks::vlm {

using chat::ChatTokens;
using chat::PictureTokens;
using chat::Sequence;
using picture_texts::ask_about_pictures;
using picture_texts::Conversation;
using picture_texts::kImageMark;
using picture_texts::last_question;
using picture_texts::marks_in;
using picture_texts::pictures_until;
using picture_texts::Turn;

class Chat {
 public:
  // `style`: auto, or one of chat::template_names(). `max_tokens`: longer conversations are cut.
  Chat(const std::string& style, tokenizer::TokenizerPtr tokenizer, int64_t max_tokens);

  // A sequence to learn or evaluate. `pictures`: all of the conversation's; none: as if there were none, to
  // see what they are worth. Pictures are never cut: those of a turn that does not fit are left out with it.
  Sequence sequence(const Conversation& conversation, const PictureTokens& pictures) const;

  // What comes before the answer to turn 2 * `question`, with all pictures until there; older turns without
  // pictures are left out until `new_tokens` fit. Empty if they never do.
  std::vector<int64_t> prompt(const Conversation& conversation, size_t question, int64_t new_tokens,
                              const PictureTokens& pictures) const;

  // The tokens of the answer to that question, its end included.
  std::vector<int64_t> answer(const Conversation& conversation, size_t question) const;

  // What was generated, as a reader sees it; without the end.
  std::string answer_text(const std::vector<int64_t>& tokens) const { return format_.answer_text(tokens); }

  int64_t end_token() const { return format_.end_token(); }  // generation stops there
  const chat::ChatFormat& format() const { return format_; }

 private:
  nlohmann::ordered_json variables(const Conversation& conversation, bool with_pictures) const;

  chat::ChatFormat format_;
  bool has_parts_;  // the template wants pictures and texts in a list
  int64_t max_tokens_;
};

}  // namespace pipeline::tasks::vlm
