#include "plugins/models/chat/compiler.hpp"

#include "core/base/utf8.hpp"
#include "plugins/models/chat/value.hpp"

namespace pipeline::chat {
namespace {

bool is_one_of(char c, std::string_view all) { return all.find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : rest_(source) {}

  std::vector<Token> run() {
    try {
      while (!rest_.empty()) read_text();
    } catch (const Problem& problem) {
      throw Problem(problem.what(), line_);
    }
    add(Token::kEnd, "the end");
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }
  char at(size_t index) const { return index < rest_.size() ? rest_[index] : '\0'; }
  std::string_view take(size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    line_ += static_cast<int>(std::ranges::count(taken, '\n'));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  // Reads up to the next tag, and that.
  void read_text() {
    size_t begin = 0;
    while (begin < rest_.size() && !(rest_[begin] == '{' && is_one_of(at(begin + 1), "%{#"))) ++begin;
    const char kind = at(begin + 1), sign = at(begin + 2);
    std::string_view text = rest_.substr(0, begin);
    const size_t line_begin = text.rfind('\n') + 1;
    if (sign == '-')
      text = stripped(text, false, true);
    else if (begin < rest_.size() && sign != '+' && kind != '{' && (line_begin > 0 || starts_line_) &&
             stripped(text.substr(line_begin), true, false).empty())
      text = text.substr(0, line_begin);  // lstrip_blocks
    if (!text.empty()) add(Token::kText, text);
    take(begin);
    if (rest_.empty()) return;
    const std::string_view mark = take(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') {
      const size_t end = rest_.find("#}");
      if (end == std::string_view::npos) throw Problem("a comment has no end, #}");
      take(end > 0 && is_one_of(rest_[end - 1], "-+") ? end - 1 : end);
      return end_tag("#}");
    }
    add(Token::kSymbol, mark.substr(0, 2));
    const std::string_view end = kind == '%' ? "%}" : "}}";
    read_tag(end);
    add(Token::kSymbol, end);
    end_tag(end);
  }

  // Reads over the end of a tag, with its sign, and over what it takes away behind it.
  void end_tag(std::string_view end) {
    const char sign = at(0);
    take(sign == end[0] ? 2 : 3);
    std::string_view gone;
    if (sign == '-')
      gone = take(rest_.size() - stripped(rest_, true, false).size());
    else if (sign != '+' && end != "}}" && at(0) == '\n')
      gone = take(1);  // trim_blocks
    starts_line_ = gone.ends_with('\n');
  }

  // Reads a tag up to its end.
  void read_tag(std::string_view end) {
    for (int open = 0;;) {
      while (is_one_of(at(0), " \t\n\r\f\v")) take(1);
      const bool has_sign = at(0) == '-' || (at(0) == '+' && end == "%}");
      if (rest_.empty()) throw Problem(fmt::format("a tag has no end, {}", end));
      if (open == 0 && rest_.substr(has_sign ? 1 : 0).starts_with(end)) return;
      if (is_one_of(at(0), "\"'")) {
        read_string(at(0));
      } else if (is_word(at(0))) {
        read_word();
      } else {
        if (!is_one_of(at(0), "+-/*%~[](){}<>=!.:|,"))
          throw Problem(fmt::format("'{}' has no meaning here", printable(first_of(rest_))));
        open += is_one_of(at(0), "([{") ? 1 : is_one_of(at(0), ")]}") ? -1 : 0;
        const bool is_double =
            at(1) == '=' ? is_one_of(at(0), "=!<>") : at(1) == at(0) && is_one_of(at(0), "*/");
        add(Token::kSymbol, take(is_double ? 2 : 1));
      }
    }
  }

  void read_word() {
    const bool is_number = is_digit(at(0));
    size_t size = 1;
    while (is_word(at(size)) || (is_number && at(size) == '.' && is_digit(at(size + 1)))) ++size;
    const std::string_view word = take(size);
    if (is_number && (!std::ranges::all_of(word, is_digit) || (size > 1 && word[0] == '0')))
      unread("the number {}", word);
    add(is_number ? Token::kDigits : Token::kName, word);
  }

  void read_string(char quote) {
    constexpr std::string_view kLetters = "nrt\\'\"", kMeant = "\n\r\t\\'\"";
    std::string value;
    take(1);
    while (at(0) != quote) {
      if (rest_.empty()) throw Problem("a string has no end");
      char c = take(1)[0];
      if (c == '\\') {
        const size_t letter = kLetters.find(at(0));
        if (letter >= kMeant.size()) unread("\\{} in a string", printable(first_of(rest_)));
        c = kMeant[letter];
        take(1);
      }
      value += c;
    }
    take(1);
    add(Token::kQuoted, value);
  }

  std::string_view rest_;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {  // line ends are one character
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      text += '\n';
  }
  if (text.ends_with('\n')) text.pop_back();
  return Lexer(text).run();
}

}  // namespace pipeline::chat
