// Text that is not TOML: what must not reach the parser, and plain messages where the parser fails.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/utf8.hpp"
#include "core/config/sources.hpp"

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

// "file:line:column: ".
std::string at(const std::string& file, size_t line, size_t column) {
  return file + ':' + std::to_string(line) + ':' + std::to_string(column) + ": ";
}

std::string_view line_of(std::string_view text, size_t line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find_first_of("\r\n"));
}

// What stands at `column` up to a separator.
std::string word_at(std::string_view line, size_t column) {
  size_t begin = 0;
  for (; column > 1 && begin < line.size(); --column)
    begin += decode_utf8(line.data() + begin, line.data() + line.size()).bytes;
  line.remove_prefix(std::min(begin, line.size()));
  line = line.substr(0, line.find_first_of(",]}#"));
  const size_t last = line.find_last_not_of(" \t");
  return shorten(std::string(line.substr(0, last == std::string_view::npos ? 0 : last + 1)), 60);
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t[");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t]") - begin + 1));
}

// The line in which the key or table that line `line` gives again was given first: all lines before it are
// valid TOML, and a probe after them lands in the table that was open.
std::optional<int> first_line_of(std::string_view text, size_t line, const std::string& name, bool is_table) {
  const std::string_view repeated = line_of(text, line);
  const auto before = std::string(text.substr(0, static_cast<size_t>(repeated.data() - text.data())));
  static constexpr std::string_view kProbe = "probe_of_the_open_table";
  // What comes before may be refused as well, and asks the same.
  static thread_local bool is_asked = false;
  if (std::exchange(is_asked, true)) return {};
  const auto end = [](bool* asked) { *asked = false; };
  const std::unique_ptr<bool, decltype(end)> asked(&is_asked, end);
  try {
    const Document document = parse(before + std::string(kProbe) + " = 1\n", "", 0);
    const bool in_stage = !is_table && document.stages && !document.stages->empty();
    const Table& root = document.root;
    const auto find = [&](const Table& table) -> std::optional<int> {
      std::string key = name;
      for (const auto& [probe, entry] : table.entries)
        if (!is_table && probe.ends_with(kProbe)) key = probe.substr(0, probe.size() - kProbe.size()) + name;
      if (const auto entry = table.entries.find(key); entry != table.entries.end())
        return entry->second.origin.line;
      if (const auto found = table.tables.find(key); found != table.tables.end()) return found->second.line;
      return {};
    };
    if (in_stage)
      if (const auto found = find(document.stages->back().table)) return found;
    return find(root);
  } catch (const ConfigError&) {
    return {};
  }
}

std::string given_twice(std::string_view text, size_t line, bool is_table) {
  const std::string_view repeated = line_of(text, line);
  const std::string name =
      trimmed(is_table ? repeated.substr(0, repeated.find(']')) : repeated.substr(0, repeated.find('=')));
  const std::optional<int> first = first_line_of(text, line, name, is_table);
  return (is_table ? "[" + name + "]" : name) + " is given twice" +
         (first ? " (first in line " + std::to_string(*first) + ")" : "") +
         (is_table ? ": put all its keys under one of the two" : ": keep one of the two");
}

std::string with_article(std::string_view noun) {
  const bool vowel = !noun.empty() && std::string_view("aeiou").find(noun[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + std::string(noun);
}

// The first word that is in '...'.
std::string in_quotes(std::string_view text) {
  const size_t begin = text.find('\'') + 1;
  return std::string(text.substr(begin, text.find('\'', begin) - begin));
}

// toml++ says "Error while parsing PLACE: WHAT".
std::string in_plain_words(std::string_view text, size_t line, size_t column, std::string_view description) {
  const size_t colon = description.find(": ");
  std::string_view place = description.substr(0, colon);
  const std::string_view what = colon == std::string_view::npos ? description : description.substr(colon + 2);
  static constexpr std::string_view kIntroduction = "Error while parsing ";
  if (place.starts_with(kIntroduction)) place.remove_prefix(kIntroduction.size());
  const auto says = [&](std::string_view part) { return what.find(part) != std::string_view::npos; };

  if (says("unexpected character"))
    return "a line that is not TOML: keys and tables are made of letters, digits, _ and -, or are in quotes";
  if (says("into existing inline table")) {
    const std::string key = in_quotes(what);
    return "[" + key + "]: " + key.substr(0, key.rfind('.')) +
           " is a table in one line, { ... }, to which nothing can be added: write it as [" +
           key.substr(0, key.rfind('.')) + "] with a line for each key";
  }
  if (says("cannot redefine") || says("cannot insert"))
    return given_twice(text, line, place == "table header");
  if (says("could not determine value type")) {
    const std::string word = word_at(line_of(text, line), column);
    return word + " is not a TOML value: text needs quotes: \"" + word + "\"";
  }
  if (place == "boolean")
    return "not a TOML value: booleans are true and false in lower case, text needs quotes";
  if (says("escape sequence") || place == "unicode scalar sequence")
    return "a backslash in \"...\" begins an escape sequence: put text with backslashes in '...'";
  if (says("control characters") && place.find("string") != std::string_view::npos)
    return "a string does not end in its line: close it with the quote that it began with";
  if (says("end-of-file")) return "the file ends in the middle of " + with_article(place) + ": close it";
  if (says("expected '=', saw")) return "a key without a value: write key = value";
  if (says("expected value, saw")) return "there is no value after the =: give one, or remove the key";
  if (says("comma or closing ']'")) return "a list's elements need a comma between them";
  if (place == "inline table" && says("saw '\\n'"))
    return "an inline table { ... } must be written in one line: use a [table] header for longer ones";
  if (says("expected a comment or whitespace"))
    return "unexpected text after the " + std::string(place == "table header" ? "table header" : "value") +
           ": one key = value in a line, text in quotes";
  return std::string(what) + " (in " + with_article(place) + "): see toml.io for the syntax";
}

}  // namespace

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

ConfigError syntax_error(std::string_view text, const std::string& file, size_t line, size_t column,
                         std::string_view description) {
  // toml++ has read the header, and stands behind it.
  if (column == 1 && line > 1 && description.find("into existing inline table") != std::string_view::npos)
    --line;
  return ConfigError(at(file, line, column) + in_plain_words(text, line, column, description));
}

}  // namespace pipeline::config
