#pragma once

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace pipeline {

// Throws an Error with this text, in fmt's form.
template <class... Args>
[[noreturn]] void fail(uint32_t code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace pipeline
