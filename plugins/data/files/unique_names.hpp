// Names that tell things apart.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/utf8.hpp"

namespace pipeline::files {

// The short name of each thing where no other has it, else its long one; and with a number where even those
// are the same. The result has no two that are equal. Both lists have a name for each thing.
std::vector<std::string> tell_apart(const std::vector<std::string>& short_names,
                                    const std::vector<std::string>& long_names);

// A character that no file's name has, so that a number behind it makes a name that no other thing has.
inline constexpr char kNumberMark = '~';

// Beginnings of the names of samples' files, a different one for each name: plain, without folders or what a
// shell takes for its own, and not longer than a file system takes.
std::vector<std::string> file_names(const std::vector<std::string>& names);

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

}  // namespace pipeline::files
