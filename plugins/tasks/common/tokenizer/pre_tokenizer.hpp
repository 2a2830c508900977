#pragma once

#include <cstdint>
#include <string_view>

namespace pipeline::text {

// What GPT-2's regular expression tells apart: \p{L}, \p{N}, \s and the rest (bytes that are not UTF-8
// included).
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// By Unicode 16.0. Any value is allowed; those above U+10FFFF are kOther.
CharacterClass character_class(uint32_t code_point);

// Cuts text into the pieces of GPT-2's regular expression, which are then encoded each for itself:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The pieces are non-empty and together are the text. Bytes that are not UTF-8 belong to [^\s\p{L}\p{N}].
//
//   for (PieceScanner scanner(text); scanner.next();) use(scanner.piece());
class PieceScanner {
 public:
  explicit PieceScanner(std::string_view text) : end_(text.data() + text.size()), rest_(text.data()) {}

  // Goes to the next piece; false when there is none.
  bool next();

  std::string_view piece() const { return piece_; }

 private:
  const char* end_;
  const char* rest_;
  std::string_view piece_;
};

}  // namespace pipeline::text
