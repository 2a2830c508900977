#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace pipeline::checkpoint {

// A checksum as it is written in a manifest: eight lower-case hexadecimal digits.
inline std::string hex(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

inline std::optional<uint32_t> from_hex(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace pipeline::checkpoint
