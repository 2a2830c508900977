#include "tokenizer/byte_alphabet.hpp"

#include "core/base/utf8.hpp"

namespace pipeline::text {
namespace {

constexpr uint32_t kSubstitutes = 0x100;  // the first character that does not stand for itself
constexpr uint32_t kSubstituteCount = 68;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<uint16_t, 256> character_of{};
  std::array<uint8_t, kSubstitutes + kSubstituteCount> byte_of{};
  std::array<uint8_t, 256> order{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  uint16_t substitute = kSubstitutes;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint16_t character = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : substitute++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<uint8_t>(byte);
  }
  size_t position = 0;
  for (const bool itself : {true, false}) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (stands_for_itself(byte) == itself) alphabet.order[position++] = static_cast<uint8_t>(byte);
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(kAlphabet.character_of[static_cast<uint8_t>(byte)], text);
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const CodePoint character = decode_utf8(p, end);
    const bool substitute =
        character.value >= kSubstitutes && character.value < kSubstitutes + kSubstituteCount;
    if (!substitute && !(character.value < kSubstitutes && stands_for_itself(character.value)))
      return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of[character.value]);
    p += character.bytes;
  }
  return bytes;
}

const std::array<uint8_t, 256>& alphabet_order() { return kAlphabet.order; }

}  // namespace pipeline::text
