#pragma once

#include <cstdio>
#include <string>

namespace pipeline::protein {

// For tables and reports: so many digits after the point.
inline std::string decimal(double value, int digits = 3) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", digits, value)) + 1, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  text.pop_back();
  return text;
}

}  // namespace pipeline::protein
