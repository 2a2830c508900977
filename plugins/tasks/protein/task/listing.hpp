#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace pipeline::protein {

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
