#pragma once

#include <cstdint>

namespace pipeline::text {

// What GPT-2's regular expression tells apart: \p{L}, \p{N}, \s and the rest (bytes that are not UTF-8
// included).
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// By Unicode 16.0. Any value is allowed; those above U+10FFFF are kOther.
CharacterClass character_class(uint32_t code_point);

}  // namespace pipeline::text
