#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

// Both are in it.
struct CodePointRange {
  uint32_t first, last;
};

// What the regular expressions tell apart: \p{L}, \p{N}, \s and the rest (bytes that are not UTF-8
// included).
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// The class by Unicode 16.0. Any value is allowed; those above U+10FFFF are kOther.
CharacterClass character_class(uint32_t code_point);

// Cuts text into the pieces of a regular expression, which are then encoded each for itself.
//
// GPT-2:    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// SmolLM:   each \p{N} is a piece, and GPT-2's expression cuts the texts between them
// Llama 3:  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//           |\s*[\r\n]+|\s+(?!\S)|\s+
// Qwen2:    Llama 3's with \p{N} in place of \p{N}{1,3}
// CLIP:     's|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+, and \s+, which CLIP leaves out
//
// The pieces are non-empty and together are the text. Bytes that are not UTF-8 belong to [^\s\p{L}\p{N}].
//
//   for (PieceScanner scanner(text); scanner.next();) use(scanner.piece());
class PieceScanner {
 public:
  explicit PieceScanner(std::string_view text, PreTokenizer kind = PreTokenizer::kGpt2)
      : end_(text.data() + text.size()), rest_(text.data()), piece_end_(scanner_of(kind)) {}

  // Goes to the next piece; false when there is none.
  bool next() {
    if (rest_ == end_) return false;
    const char* const begin = rest_;
    rest_ = piece_end_(begin, end_);
    piece_ = std::string_view(begin, static_cast<size_t>(rest_ - begin));
    return true;
  }

  std::string_view piece() const { return piece_; }

 private:
  using PieceEnd = const char* (*)(const char* piece, const char* end);
  static PieceEnd scanner_of(PreTokenizer kind);

  const char* end_;
  const char* rest_;
  PieceEnd piece_end_;
  std::string_view piece_;
};

// Unicode's normal form C, in which a letter and its accent are one character where there is one. Text that
// is no UTF-8 stays as it is. `kept`: memory for the result, which may be `text` itself.
std::string_view composed(std::string_view text, std::string& kept);
// Normal form D, in which letter and accent are two. The same.
std::string_view decomposed(std::string_view text, std::string& kept);

// The text in lower case, each character by itself; bytes that are no UTF-8 stay as they are.
std::string lowered(std::string_view text);

}  // namespace pipeline::tokenizer
