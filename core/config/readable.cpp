#include "core/config/readable.hpp"

#include <algorithm>

#include "core/base/utf8.hpp"
#include "core/config/error.hpp"
#include "core/config/literal.hpp"

namespace pipeline::config {
namespace {

// Parts of a dotted key; toml++ 3.3 recurses once per part when it frees a table.
constexpr int kDeepestKey = 32;

// Follows TOML's strings and comments through a text, character by character.
class Scanner {
 public:
  // Takes in the first character of `rest`; true if it stands outside of strings and comments.
  bool is_plain(std::string_view rest) {
    const char c = rest[0];
    if (skip_ > 0) {
      --skip_;
    } else if (comment_) {
      comment_ = c != '\n';
    } else if (!quote_.empty()) {
      inside_string(rest);
    } else if (c == '"' || c == '\'') {
      const std::string_view triple = c == '"' ? "\"\"\"" : "\'\'\'";
      quote_ = rest.starts_with(triple) ? triple : triple.substr(0, 1);
      skip_ = quote_.size() - 1;
    } else {
      comment_ = c == '#';
      return true;
    }
    return false;
  }

 private:
  void inside_string(std::string_view rest) {
    if (rest[0] == '\n' && quote_.size() == 1) {
      quote_ = {};
    } else if (rest[0] == '\\' && quote_[0] == '"') {
      skip_ = rest.size() > 1 && rest[1] != '\n' ? 1 : 0;
    } else if (rest.starts_with(quote_)) {
      // Up to two quotes more belong to the end of a multi-line string.
      const size_t quotes = std::min(rest.find_first_not_of(quote_[0]), rest.size());
      skip_ = quote_.size() == 1 ? 0 : std::min<size_t>(quotes, 5) - 1;
      quote_ = {};
    }
  }

  std::string_view quote_;  // that the string we are in ends with
  bool comment_ = false;
  size_t skip_ = 0;  // characters that belong to one already seen
};

// The word around position `i`.
std::string word_around(std::string_view text, size_t i) {
  constexpr std::string_view kSeparators = " \t\r\n=,[]{}#\"'";
  const size_t before = text.find_last_of(kSeparators, i);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return shorten(
      std::string(text.substr(begin, std::min(text.find_first_of(kSeparators, i), text.size()) - begin)), 60);
}

}  // namespace

std::string at(const std::string& file, size_t line, size_t column) {
  return file + ':' + std::to_string(line) + ':' + std::to_string(column) + ": ";
}

void refuse_unreadable(std::string_view text, const std::string& file) {
  size_t line = 1, column = 1;
  Scanner scanner;
  int dots = 0;
  const auto fail = [&](const std::string& problem) { return ConfigError(at(file, line, column) + problem); };
  for (size_t i = text.starts_with("\xef\xbb\xbf") ? 3 : 0; i < text.size();) {
    const CodePoint character = decode_utf8(text.data() + i, text.data() + text.size());
    if (character.value == kInvalidByte) throw fail("not UTF-8 text: save the file in the encoding UTF-8");
    if (text[i] == '\0') throw fail("a NUL byte: this is not a text file");
    if (scanner.is_plain(text.substr(i))) {
      if (character.bytes > 1)
        throw fail(word_around(text, i) +
                   " stands outside of quotes: put text in quotes; keys are made of a-z, 0-9, _ and -");
      if (std::string_view(",=[]{}\n").find(text[i]) != std::string_view::npos) dots = 0;
      if (text[i] == '.' && ++dots > kDeepestKey)
        throw fail("a key of more than " + std::to_string(kDeepestKey) + " parts: no option is that deep");
    }
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n' ? 1 : 0;
    i += character.bytes;
  }
}

}  // namespace pipeline::config
