#include "tokenizer/added_tokens.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include "core/base/utf8.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace pipeline::tokenizer {
namespace {

bool is_space(const CodePoint& character) {
  return character_class(character.value) == CharacterClass::kSpace;
}

// Where the white space begins that ends at `end`, not before `least`.
size_t before_spaces(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    size_t begin = end - 1;
    while (begin > least && (text[begin] & 0xc0) == 0x80) --begin;
    if (!is_space(decode_utf8(text.data() + begin, text.data() + end))) break;
    end = begin;
  }
  return end;
}

size_t after_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint character = decode_utf8(text.data() + at, text.data() + text.size());
    if (!is_space(character)) break;
    at += character.bytes;
  }
  return at;
}

// The part [done, end) of a text.
void cut_at(const TokenIndex& tokens, std::string_view text, size_t done, size_t end,
            const std::function<void(size_t begin, size_t end)>& plain,
            const std::function<void(int32_t)>& take) {
  for (size_t from = done;;) {
    const auto [token, at] = tokens.first(text.substr(0, end), from);
    if (token == nullptr) break;
    from = at + token->text.size();
    const size_t begin = token->how.takes_left ? before_spaces(text, at, done) : at;
    if (begin > done) plain(done, begin);
    take(token->id);
    done = token->how.takes_right ? after_spaces(text.substr(0, end), from) : from;
  }
  if (done < end) plain(done, end);
}

}  // namespace

TokenIndex::TokenIndex(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, {}, &Token::text);
  const auto same = [](const Token& a, const Token& b) { return a.text == b.text; };  // composed, they may be
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());
  for (const Token& token : tokens_) begins_[static_cast<uint8_t>(token.text[0])] = true;
  if (std::ranges::count(begins_, true) == 1) first_byte_ = tokens_[0].text[0];
}

size_t TokenIndex::may_begin(std::string_view text, size_t from) const {
  if (first_byte_) return std::min(text.find(*first_byte_, from), text.size());
  while (from < text.size() && !begins_[static_cast<uint8_t>(text[from])]) ++from;
  return from;
}

TokenIndex::Found TokenIndex::first(std::string_view text, size_t from) const {
  for (size_t at = may_begin(text, from); at < text.size(); at = may_begin(text, at + 1)) {
    const Token* longest = nullptr;
    // Those of the tokens, which are sorted, that begin as the text does from `at`: fewer with each byte, and
    // the shortest of them comes first.
    auto first = tokens_.begin(), end = tokens_.end();
    for (size_t bytes = 0; first != end; ++bytes) {
      if (first->text.size() == bytes) longest = &*first++;
      if (at + bytes == text.size()) break;
      const auto byte = static_cast<uint8_t>(text[at + bytes]);
      const auto byte_of = [&](const Token& token) { return static_cast<uint8_t>(token.text[bytes]); };
      first = std::ranges::lower_bound(first, end, byte, {}, byte_of);
      end = std::ranges::upper_bound(first, end, byte, {}, byte_of);
    }
    if (longest != nullptr) return {longest, at};
  }
  return {};
}

AddedTokens::AddedTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  const auto index_of = [&](const auto& is_wanted) {
    std::vector<Token> wanted;
    std::ranges::copy_if(tokens_, std::back_inserter(wanted), is_wanted);
    return TokenIndex(std::move(wanted));
  };
  for (const bool finds_special : {false, true})
    for (const bool is_normalized : {false, true})
      lists_[finds_special][is_normalized] = index_of([&](const Token& token) {
        return (finds_special || !token.how.is_special) && token.how.is_normalized == is_normalized;
      });
  special_ = index_of([](const Token& token) { return token.how.is_special; });
}

void AddedTokens::cut(std::string_view text, SpecialTokens special,
                      const std::function<void(std::string_view)>& plain,
                      const std::function<void(int32_t)>& token, const Normalize& normalize) const {
  const auto& lists = lists_[special == SpecialTokens::kRecognize];
  const auto cut_rest = [&](std::string_view part) {
    cut_at(
        lists[1], part, 0, part.size(), [&](size_t from, size_t to) { plain(part.substr(from, to - from)); },
        token);
  };
  cut_at(
      lists[0], text, 0, text.size(),
      [&](size_t begin, size_t end) {
        std::string kept;
        const std::string_view part = text.substr(begin, end - begin);
        cut_rest(normalize ? normalize(part, kept) : part);
      },
      token);
}

Tokenizer::Special AddedTokens::first_special(std::string_view text) const {
  const auto [token, at] = special_.first(text, 0);
  return token == nullptr ? Tokenizer::Special{} : Tokenizer::Special{at, token->text.size()};
}

}  // namespace pipeline::tokenizer
