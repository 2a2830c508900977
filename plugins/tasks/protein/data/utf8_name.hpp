#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "core/base/utf8.hpp"

namespace pipeline::protein {

// A name as text that every reader of UTF-8 takes: bytes that are none are written as in an address (%FF).
// Two names can become the same.
inline std::string utf8_name(std::string_view name) {
  std::string result;
  for (const char *at = name.data(), *const end = at + name.size(); at != end;) {
    const CodePoint point = decode_utf8(at, end);
    if (point.value == kInvalidByte) {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(*at)));
      result += code;
    } else {
      result.append(at, point.bytes);
    }
    at += point.bytes;
  }
  return result;
}

}  // namespace pipeline::protein
