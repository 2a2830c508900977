#include "core/base/utf8.hpp"

#include <algorithm>
#include <cstring>

namespace pipeline {
namespace {

// What follows a lead byte (Unicode 16.0, table 3-7): how many bytes in all, and the range of the second.
struct Lead {
  uint32_t bytes;  // 0: no lead byte
  uint8_t second_min;
  uint8_t second_max;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// The bytes at the front of [begin, end) that agree with the form of `lead`, at least 1.
uint32_t matching_bytes(const Lead& lead, const char* begin, const char* end) {
  const auto wanted = std::min<size_t>(lead.bytes, static_cast<size_t>(end - begin));
  for (uint32_t i = 1; i < wanted; ++i) {
    const auto byte = static_cast<uint8_t>(begin[i]);
    const bool fits = i == 1 ? byte >= lead.second_min && byte <= lead.second_max : (byte & 0xc0) == 0x80;
    if (!fits) return i;
  }
  return std::max<uint32_t>(1, static_cast<uint32_t>(wanted));
}

}  // namespace

CodePoint decode_utf8(const char* begin, const char* end) {
  const auto first = static_cast<uint8_t>(*begin);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0 || matching_bytes(lead, begin, end) != lead.bytes) return {kInvalidByte, 1};
  uint32_t value = first & (0x7fu >> lead.bytes);
  for (uint32_t i = 1; i < lead.bytes; ++i) value = value << 6 | (static_cast<uint8_t>(begin[i]) & 0x3fu);
  return {value, lead.bytes};
}

size_t first_invalid_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    uint64_t eight;  // most text is ASCII: eight bytes at a time
    if (end - p >= static_cast<std::ptrdiff_t>(sizeof eight)) {
      std::memcpy(&eight, p, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        p += sizeof eight;
        continue;
      }
    }
    const CodePoint code_point = decode_utf8(p, end);
    if (code_point.value == kInvalidByte) return static_cast<size_t>(p - text.data());
    p += code_point.bytes;
  }
  return std::string_view::npos;
}

std::string_view utf8_prefix(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<uint8_t>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

void append_utf8(uint32_t code_point, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xc0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xe0 | code_point >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | code_point >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string replace_invalid_utf8(std::string text) {
  const char* const end = text.data() + text.size();
  const auto well_formed = [end](const char* p) { return decode_utf8(p, end).value != kInvalidByte; };
  const char* p = text.data();
  while (p != end && well_formed(p)) p += decode_utf8(p, end).bytes;
  if (p == end) return text;

  std::string result = text.substr(0, static_cast<size_t>(p - text.data()));
  while (p != end) {
    const bool good = well_formed(p);
    const uint32_t bytes = matching_bytes(lead_of(static_cast<uint8_t>(*p)), p, end);
    if (good) {
      result.append(p, bytes);
    } else {
      append_utf8(0xfffd, result);
    }
    p += bytes;
  }
  return result;
}

std::string printable(std::string_view text, std::string_view kept) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const auto [value, bytes] = decode_utf8(p, end);
    const bool is_control = value < 0x20 || (value >= 0x7f && value < 0xa0);
    const bool is_shown = value != kInvalidByte && (!is_control || kept.find(*p) != std::string_view::npos);
    for (const char c : std::string_view(p, bytes)) {
      const auto byte = static_cast<uint8_t>(c);
      if (is_shown)
        result += c;
      else
        result.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 0xf]);
    }
    p += bytes;
  }
  return result;
}

}  // namespace pipeline
