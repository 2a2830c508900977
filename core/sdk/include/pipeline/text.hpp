#pragma once

#include <pipeline.h>

#include <sstream>
#include <string>
#include <string_view>

namespace pipeline {
inline namespace [[gnu::visibility("hidden")]] sdk_v1 {

inline std::string_view view(pl_str s) {
  return s.len == 0 ? std::string_view() : std::string_view(s.ptr, s.len);
}

// Borrows `text`.
inline pl_str str(std::string_view text) { return {text.data(), text.size()}; }

// "epoch " + 3 + " of " + 2.5, without the conversions.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace gnu::visibility("hidden")]]sdk_v1
}  // namespace pipeline
