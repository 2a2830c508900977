#pragma once

#include <string_view>

#include "pipeline.h"

namespace pipeline {

// The view lives as long as the characters it was made from.
inline pl_str to_pl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(pl_str text) {
  return text.len == 0 || !text.ptr ? std::string_view() : std::string_view(text.ptr, text.len);
}

}  // namespace pipeline
