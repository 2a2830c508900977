#include "plugins/models/chat/answer_stream.hpp"

#include "core/base/utf8.hpp"

namespace pipeline::chat {
namespace {

// Bytes of the text without a character at its end that is not complete yet.
size_t whole_characters(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin - 1]) & 0xc0) == 0x80)
    --begin;
  if (begin == 0) return text.size();
  const auto first = static_cast<unsigned char>(text[begin - 1]);
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return text.size() - begin + 1 < bytes ? begin - 1 : text.size();
}

}  // namespace

void AnswerStream::send(bool is_all) {
  const std::string bytes = format_.answer_bytes(tokens_);
  if (format_.may_be_start(bytes) && !is_all) return;
  const std::string text = replace_invalid_utf8(is_all ? bytes : bytes.substr(0, whole_characters(bytes)));
  if (text.size() > said_.size()) send_(std::string_view(text).substr(said_.size()));
  said_ = text;
}

}  // namespace pipeline::chat
