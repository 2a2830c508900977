#include "plugins/models/chat/lexer.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "core/base/utf8.hpp"

namespace pipeline::chat {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    for (size_t i = 0; i < source.size(); ++i) {  // line ends are one character
      if (source[i] != '\r')
        source_ += source[i];
      else if (i + 1 == source.size() || source[i + 1] != '\n')
        source_ += '\n';
    }
    if (source_.ends_with('\n')) source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(Token::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw LineProblem(line_, what); }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  bool at(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }
  void advance(size_t count) {
    line_ += static_cast<int>(std::ranges::count(std::string_view(source_).substr(at_, count), '\n'));
    at_ += count;
  }

  // Up to the next tag, and that.
  void read_text() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string::npos &&
           std::string_view("%{#").find(source_.c_str()[tag + 1]) == std::string_view::npos)
      ++tag;
    if (tag == std::string::npos) {
      add(Token::kText, source_.substr(at_));
      return advance(source_.size() - at_);
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    std::string text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text.erase(text.find_last_not_of(kSpace) + 1);
    } else if (sign != '+' && kind != '{') {  // lstrip_blocks
      const size_t line_begin = text.rfind('\n') + 1;
      if ((line_begin > 0 || starts_line_) &&
          text.find_first_not_of(" \t\f\v", line_begin) == std::string::npos)
        text.erase(line_begin);
    }
    if (!text.empty()) add(Token::kText, std::move(text));
    advance(tag - at_ + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') {
      const size_t end = source_.find("#}", at_);
      if (end == std::string::npos) fail("this comment has no end, #}");
      advance(end - at_ - (end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+') ? 1 : 0));
      return end_tag('#', true);
    }
    add(kind == '%' ? Token::kBlock : Token::kOutput, "");
    read_tag(kind == '%' ? '%' : '}');
  }

  // From - or + on, if there is one, over the end of a tag and what it takes away behind it.
  void end_tag(char mark, bool trims) {
    const char sign = source_[at_];
    const size_t begin = at_;
    advance(sign == mark ? 2 : 3);
    if (sign == '-') {
      const size_t next = source_.find_first_not_of(kSpace, at_);
      advance((next == std::string::npos ? source_.size() : next) - at_);
    } else if (sign != '+' && trims && at("\n")) {  // trim_blocks
      advance(1);
    }
    starts_line_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void read_tag(char mark) {
    const std::string end{mark, '}'};
    for (int open = 0;;) {
      const size_t next = source_.find_first_not_of(kSpace, at_);
      if (next == std::string::npos) fail(fmt::format("a tag has no end, {}", end));
      advance(next - at_);
      if (open == 0 && (at(end) || at("-" + end) || (mark == '%' && at("+" + end)))) {
        add(mark == '%' ? Token::kBlockEnd : Token::kOutputEnd, "");
        return end_tag(mark, mark == '%');
      }
      const char c = source_[at_];
      if (c == '"' || c == '\'') {
        read_string(c);
      } else if (is_digit(c)) {
        read_number();
      } else if (is_name(c)) {
        size_t last = at_;
        while (last < source_.size() && is_name(source_[last])) ++last;
        add(Token::kName, source_.substr(at_, last - at_));
        advance(last - at_);
      } else {
        read_operator(open);
      }
    }
  }

  void read_operator(int& open) {
    for (const std::string_view two : {"**", "//", "==", "!=", ">=", "<="})
      if (at(two)) return add(Token::kOperator, std::string(two)), advance(2);
    const char c = source_[at_];
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos)
      fail(fmt::format("'{}' has no meaning here", printable(std::string_view(source_).substr(at_, 1))));
    open += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    add(Token::kOperator, std::string(1, c));
    advance(1);
  }

  void read_number() {
    std::string digits;
    size_t last = at_;
    bool is_float = false;
    const auto take = [&] {
      for (; last < source_.size() && (is_digit(source_[last]) || source_[last] == '_'); ++last)
        if (source_[last] != '_') digits += source_[last];
    };
    take();
    if (last + 1 < source_.size() && source_[last] == '.' && is_digit(source_[last + 1])) {
      is_float = true;
      digits += source_[last++];
      take();
    }
    if (last + 1 < source_.size() && (source_[last] | 0x20) == 'e') {
      const size_t sign = source_[last + 1] == '-' || source_[last + 1] == '+' ? 1 : 0;
      if (last + 1 + sign < source_.size() && is_digit(source_[last + 1 + sign])) {
        is_float = true;
        digits += source_.substr(last, 1 + sign);
        last += 1 + sign;
        take();
      }
    }
    if (last < source_.size() && is_name(source_[last])) fail("a number ends in a letter");
    add(is_float ? Token::kFloat : Token::kInteger, digits);
    advance(last - at_);
  }

  // With the escapes of Python; one that it does not know stays as it is.
  void read_string(char quote) {
    std::string value;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\' || i + 1 == source_.size()) {
        value += source_[i];
        continue;
      }
      const char c = source_[++i];
      constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
        value += kMeant[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t point = 0;
        const char *begin = source_.c_str() + i + 1, *end = begin + std::min(digits, source_.size() - i - 1);
        if (std::from_chars(begin, end, point, 16).ptr != begin + digits || point > 0x10ffff ||
            (point >> 11) == 0x1b)
          fail(fmt::format("\\{} in a string must be followed by {} hexadecimal digits of a character", c,
                           digits));
        append_utf8(point, value);
        i += digits;
      } else if (c != '\n') {
        if (is_digit(c) || c == 'N') fail(fmt::format("\\{} in a string is not read here", c));
        value += {'\\', c};
      }
    }
    if (i >= source_.size()) fail("a string has no end");
    const size_t size = i + 1 - at_;
    add(Token::kString, std::move(value));
    advance(size);
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace pipeline::chat
