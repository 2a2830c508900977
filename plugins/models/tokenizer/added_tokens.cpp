#include "tokenizer/added_tokens.hpp"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "core/base/utf8.hpp"
#include "tokenizer/normal_form.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace pipeline::text {
namespace {

// A token in a text.
struct Found {
  const AddedTokens::Token* token;
  size_t at;
};

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
// whole text, whatever the others do, and however many parts it is cut into.
class Finder {
 public:
  Finder(std::string_view text, const std::vector<Token>& tokens) : text_(text) {
    for (const Token& token : tokens) look_for(&token, 0);
  }

  // Within [from, end), neither of which may go back; no token where there is none.
  Found next(size_t from, size_t end) {
    while (!places_.empty() && places_.top().at < end) {
      const Found first = places_.top();
      if (first.at >= from && first.at + first.token->text.size() <= end) return first;
      places_.pop();
      look_for(first.token, std::max(from, first.at + 1));
    }
    return {nullptr, text_.npos};
  }

 private:
  struct IsLater {
    bool operator()(const Found& a, const Found& b) const {
      return std::tuple(a.at, b.token->text.size(), a.token) >
             std::tuple(b.at, a.token->text.size(), b.token);
    }
  };

  void look_for(const Token* token, size_t from) {
    if (const size_t at = text_.find(token->text, from); at != text_.npos) places_.push({token, at});
  }

  std::string_view text_;
  std::priority_queue<Found, std::vector<Found>, IsLater> places_;
};

// The part [done, end) of a text.
void cut_at(Finder& finder, std::string_view text, size_t done, size_t end,
            const std::function<void(size_t begin, size_t end)>& plain,
            const std::function<void(int32_t)>& take) {
  for (size_t from = done;;) {
    const auto [token, at] = finder.next(from, end);
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

AddedTokens::AddedTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const Token& token : tokens_)
    for (const bool finds_special : {false, true})
      if (finds_special || !token.how.is_special)
        lists_[finds_special][token.how.is_normalized].push_back(token);
}

void AddedTokens::cut(std::string_view text, SpecialTokens special,
                      const std::function<void(std::string_view)>& plain,
                      const std::function<void(int32_t)>& token, bool is_composed) const {
  const std::array<List, 2>& lists = lists_[special == SpecialTokens::kRecognize];
  Finder first(text, lists[0]);
  if (is_composed) {
    const auto compose = [&](size_t begin, size_t end) {
      std::string kept;
      const std::string_view part = composed(text.substr(begin, end - begin), kept);
      Finder rest(part, lists[1]);
      cut_at(
          rest, part, 0, part.size(), [&](size_t from, size_t to) { plain(part.substr(from, to - from)); },
          token);
    };
    return cut_at(first, text, 0, text.size(), compose, token);
  }
  Finder rest(text, lists[1]);
  const auto plain_text = [&](size_t begin, size_t end) { plain(text.substr(begin, end - begin)); };
  cut_at(
      first, text, 0, text.size(),
      [&](size_t begin, size_t end) { cut_at(rest, text, begin, end, plain_text, token); }, token);
}

Tokenizer::Special AddedTokens::first_special(std::string_view text) const {
  Tokenizer::Special first;
  for (const Token& token : tokens_) {
    if (!token.how.is_special) continue;
    const size_t at = text.find(token.text);
    if (at == text.npos || (first.bytes > 0 && at > first.at)) continue;
    if (first.bytes == 0 || at < first.at || token.text.size() > first.bytes) first = {at, token.text.size()};
  }
  return first;
}

}  // namespace pipeline::text
