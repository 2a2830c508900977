// Small texts for people and tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::files {

inline constexpr std::string_view kSpaces = " \t\r\n";

// Without the spaces around it.
inline std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

// "1 chain", "2 chains".
inline std::string counted(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

// "a, b and 7 more": the first of some names, for the log.
inline std::string first_of(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace pipeline::files
