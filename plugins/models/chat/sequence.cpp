#include "plugins/models/chat/sequence.hpp"

#include <algorithm>

#include "core/base/utf8.hpp"

namespace pipeline::chat {
namespace {

// The last token of the input is one that nothing follows: its target is one more.
size_t most_of(int64_t max_tokens) { return static_cast<size_t>(max_tokens) + 1; }

// How many tokens end with the last answer that ends within `most` of them; 0: none does.
size_t end_of_answer(const ChatTokens& chat, size_t most) {
  for (size_t end = std::min(most, chat.tokens.size()); end > 0; --end)
    if (chat.answer_of[end - 1] >= 0 &&
        (end == chat.tokens.size() || chat.answer_of[end] != chat.answer_of[end - 1]))
      return end;
  return 0;
}

// How many tokens are kept.
size_t kept(const ChatTokens& chat, size_t most, bool learns_all) {
  const size_t size = chat.tokens.size(), last = end_of_answer(chat, size);
  if (learns_all && size <= most) return size;
  if (last > 0 && last <= most) return last;
  if (last == 0 && size < most) return size;  // a question to be answered
  if (const size_t end = end_of_answer(chat, most); end > 0) return end;
  const bool is_in_answer = most <= size && chat.answer_of[most - 1] >= 0;
  return learns_all || is_in_answer ? most : std::min<size_t>(size, 1);
}

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

bool Sequence::has_target() const {
  return std::ranges::any_of(targets, [](int64_t target) { return target >= 0; });
}

bool fits(const ChatTokens& chat, int64_t max_tokens) {
  return end_of_answer(chat, chat.tokens.size()) <= most_of(max_tokens);
}

Sequence make_sequence(const ChatTokens& chat, int64_t max_tokens,
                       const std::function<bool(size_t message)>& learns) {
  const size_t most = most_of(max_tokens), end = kept(chat, most, !learns);
  Sequence result{
      .tokens = {}, .targets = {}, .is_cut = !fits(chat, max_tokens), .left_out = chat.tokens.size() - end};
  if (!learns) result.is_cut |= end < chat.tokens.size();
  const auto is_learnt = [&](size_t i) {
    return !learns || (chat.answer_of[i] >= 0 && learns(static_cast<size_t>(chat.answer_of[i])));
  };
  for (size_t i = 0; i < end; ++i) {
    if (i > 0) result.targets.push_back(is_learnt(i) ? chat.tokens[i] : -1);
    result.tokens.push_back(chat.tokens[i]);
  }
  if (end > 1 && result.targets.back() >= 0)
    result.tokens.pop_back();  // a target alone
  else if (end > 0)
    result.targets.push_back(-1);
  return result;
}

size_t fewest(size_t from, size_t end, const std::function<bool(size_t count)>& is_enough) {
  while (from < end) {
    const size_t middle = from + (end - from) / 2;
    if (is_enough(middle))
      end = middle;
    else
      from = middle + 1;
  }
  return from;
}

void AnswerStream::send(bool is_all) {
  const std::string bytes = format_.answer_bytes(tokens_);
  if (format_.may_be_start(bytes) && !is_all) return;
  const std::string text = replace_invalid_utf8(is_all ? bytes : bytes.substr(0, whole_characters(bytes)));
  if (text.size() > said_.size()) send_(std::string_view(text).substr(said_.size()));
  said_ = text;
}

}  // namespace pipeline::chat
