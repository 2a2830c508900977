// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing over U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pipeline {

struct CodePoint {
  uint32_t value;  // kInvalidByte where no well-formed sequence begins
  uint32_t bytes;  // 1 for an invalid byte
};

inline constexpr uint32_t kInvalidByte = 0xffffffff;

// The code point at the front of [begin, end), which must not be empty. What is not well-formed, cut
// sequences too, is invalid, one byte at a time.
CodePoint decode_utf8(const char* begin, const char* end);

// Where the text stops being well-formed: a byte offset, or npos.
size_t first_invalid_utf8(std::string_view text);

// The first `most` bytes of the text, or fewer where they would cut a character.
std::string_view utf8_prefix(std::string_view text, size_t most);

// At most U+10FFFF, and no surrogate.
void append_utf8(uint32_t code_point, std::string& text);

// The text with U+FFFD for each ill-formed part, as Python's errors="replace" and Rust's from_utf8_lossy cut
// the parts: the longest prefix of a well-formed sequence, or one byte.
std::string replace_invalid_utf8(std::string text);

// The text as it may reach a terminal, which obeys control characters: these and ill-formed bytes are shown
// as \xNN. `kept`: those that may stay.
std::string printable(std::string_view text, std::string_view kept = "\n\t");

}  // namespace pipeline
