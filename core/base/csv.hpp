#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline {

// A field of CSV by RFC 4180: quoted where it holds a comma, quote, CR or LF.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

// A number for tables that somebody computes with: it reads as the same number again.
inline std::string exactly(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

struct CsvRow {
  size_t line;  // in which it begins, from 1
  std::vector<std::string> cells;
};

// The rows of a text of CSV; a byte order mark and blank lines are not among them.
std::vector<CsvRow> csv_rows(std::string_view text);

}  // namespace pipeline
