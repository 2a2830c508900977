#include "tokenizer/pre_tokenizer.hpp"

#include <array>
#include <cstdint>

#include "core/base/utf8.hpp"
#include "tokenizer/character_class.hpp"

namespace pipeline::text {
namespace {

// Classes of the bytes below 0x80, which are most of most texts.
constexpr auto kAsciiClass = [] {
  std::array<CharacterClass, 128> classes{};
  for (size_t c = 0; c < 128; ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) classes[c] = CharacterClass::kLetter;
    if (c >= '0' && c <= '9') classes[c] = CharacterClass::kNumber;
    if ((c >= '\t' && c <= '\r') || c == ' ') classes[c] = CharacterClass::kSpace;
  }
  return classes;
}();

struct Character {
  CharacterClass type;
  uint32_t bytes;
};

inline Character character_at(const char* p, const char* end) {
  const auto byte = static_cast<uint8_t>(*p);
  if (byte < 0x80) return {kAsciiClass[byte], 1};
  const CodePoint code_point = decode_utf8(p, end);
  return {character_class(code_point.value), code_point.bytes};
}

// Bytes of 's, 't, 're, 've, 'm, 'll or 'd at an apostrophe, 0 where none stands there. Lower case only: so
// is GPT-2.
size_t contraction_bytes(const char* apostrophe, const char* end) {
  if (end - apostrophe < 2) return 0;
  const char first = apostrophe[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (end - apostrophe < 3) return 0;
  const char second = apostrophe[2];
  return (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')
             ? 3
             : 0;
}

// The end of the piece that begins at p. A run of letters, numbers or others may take one U+0020 before it;
// so a run of white space before such a run leaves its last character to the next piece, of which only U+0020
// joins the run.
const char* piece_end(const char* p, const char* end) {
  if (*p == '\'') {
    if (const size_t bytes = contraction_bytes(p, end)) return p + bytes;
  }
  const char* run = p + (*p == ' ' && end - p > 1 ? 1 : 0);
  Character character = character_at(run, end);
  if (character.type != CharacterClass::kSpace) {
    const CharacterClass type = character.type;
    do {
      run += character.bytes;
    } while (run != end && (character = character_at(run, end)).type == type);
    return run;
  }
  const char* last = p;
  run = p;
  do {
    last = run;
    run += character_at(run, end).bytes;
  } while (run != end && character_at(run, end).type == CharacterClass::kSpace);
  return run == end || last == p ? run : last;
}

}  // namespace

bool PieceScanner::next() {
  if (rest_ == end_) return false;
  const char* const begin = rest_;
  rest_ = piece_end(begin, end_);
  piece_ = std::string_view(begin, static_cast<size_t>(rest_ - begin));
  return true;
}

}  // namespace pipeline::text
