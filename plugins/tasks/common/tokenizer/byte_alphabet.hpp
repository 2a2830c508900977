#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipeline::text {

// How GPT-2's files write bytes as printable characters: 33-126, 161-172 and 174-255 stand for themselves,
// the other 68 bytes, in order, for U+0100 onwards. A space is "Ġ", a newline "Ċ".
std::string to_alphabet(std::string_view bytes);

// nullopt where a character is not of the alphabet or the text is not UTF-8.
std::optional<std::string> from_alphabet(std::string_view text);

// The bytes in the order that GPT-2's vocabulary gives them: that of their characters.
const std::array<uint8_t, 256>& alphabet_order();

}  // namespace pipeline::text
