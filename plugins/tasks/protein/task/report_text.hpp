#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace pipeline::protein {

// For tables and reports: so many digits after the point.
inline std::string decimal(double value, int digits = 3) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", digits, value)) + 1, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  text.pop_back();
  return text;
}

// "a, b and 7 more": the first of some names, for the log.
inline std::string first_of(const std::vector<std::string>& names, size_t most = 5) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

// "1 chain", "2 chains".
inline std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace pipeline::protein
