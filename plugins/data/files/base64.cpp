#include "plugins/data/files/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace pipeline::files {
namespace {

constexpr std::array<int8_t, 256> kValues = [] {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  return values;
}();

}  // namespace

std::optional<std::string> base64_decode(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int8_t value = kValues[static_cast<unsigned char>(text[i])];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 > 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xff);
  }
  return bytes;
}

bool is_picture_in_base64(std::string_view text) {
  constexpr size_t kLooked = 120;  // digits, groups of four
  constexpr std::string_view kStarts[] = {"/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR"};  // JPEG, PNG, GIF, WebP
  return text.size() >= kLooked && base64_decode(text.substr(0, kLooked)) &&
         std::ranges::any_of(kStarts, [&](std::string_view start) { return text.starts_with(start); });
}

}  // namespace pipeline::files
