#pragma once

#include <pipeline/namespace.hpp>

#include <pipeline.h>

#include <sstream>
#include <string>
#include <string_view>

PIPELINE_SDK_BEGIN

inline std::string_view view(pl_str s) {
  return s.len == 0 ? std::string_view() : std::string_view(s.ptr, s.len);
}

// Borrows `text`.
inline pl_str str(std::string_view text) { return {text.data(), text.size()}; }

// concat("epoch ", 3, " of ", 2.5) is "epoch 3 of 2.5".
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

PIPELINE_SDK_END
