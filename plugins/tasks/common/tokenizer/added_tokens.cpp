#include "tokenizer/added_tokens.hpp"

#include <utility>

#include "core/base/utf8.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace pipeline::text {
namespace {

using Token = AddedTokens::Token;

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

// Goes from token to token, the leftmost and then the longest first. Each token is looked for once in the
// whole text, whatever the others do.
class Finder {
 public:
  Finder(std::string_view text, const std::vector<Token>& tokens) : text_(text) {
    for (const Token& token : tokens)
      if (const size_t at = text.find(token.text); at != text.npos) places_.push_back({&token, at});
  }

  // From `from` on; no token where there is none.
  AddedTokens::Found next(size_t from) {
    AddedTokens::Found first{nullptr, text_.npos};
    for (AddedTokens::Found& place : places_) {
      if (place.at < from) place.at = text_.find(place.token->text, from);
      if (place.at < first.at || (place.at == first.at && first.token != nullptr &&
                                  place.token->text.size() > first.token->text.size()))
        first = place;
    }
    return first;
  }

 private:
  std::string_view text_;
  std::vector<AddedTokens::Found> places_;
};

void cut_at(const std::vector<Token>& tokens, std::string_view text,
            const std::function<void(std::string_view)>& plain, const std::function<void(int32_t)>& take) {
  Finder finder(text, tokens);
  size_t done = 0, from = 0;
  while (true) {
    const auto [token, at] = finder.next(from);
    if (token == nullptr) break;
    from = at + token->text.size();
    const size_t begin = token->how.takes_left ? before_spaces(text, at, done) : at;
    if (begin > done) plain(text.substr(done, begin - done));
    take(token->id);
    done = token->how.takes_right ? after_spaces(text, from) : from;
  }
  if (done < text.size()) plain(text.substr(done));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const Token& token : tokens_)
    for (const bool finds_special : {false, true})
      if (finds_special || !token.how.is_special)
        lists_[finds_special][token.how.is_normalized].push_back(token);
}

void AddedTokens::cut(std::string_view text, SpecialTokens special,
                      const std::function<void(std::string_view)>& plain,
                      const std::function<void(int32_t)>& token) const {
  const std::array<List, 2>& lists = lists_[special == SpecialTokens::kRecognize];
  cut_at(
      lists[0], text, [&](std::string_view part) { cut_at(lists[1], part, plain, token); }, token);
}

AddedTokens::Found AddedTokens::first_special(std::string_view text) const {
  Found first;
  for (const Token& token : tokens_) {
    if (!token.how.is_special) continue;
    const size_t at = text.find(token.text);
    if (at == text.npos || (first.token != nullptr && at > first.at)) continue;
    if (first.token == nullptr || at < first.at || token.text.size() > first.token->text.size())
      first = {&token, at};
  }
  return first;
}

}  // namespace pipeline::text
