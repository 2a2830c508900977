#include "tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/utf8.hpp"

namespace pipeline::text {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

#include "plugins/tasks/common/tokenizer/unicode_ranges.inc"

// The property White_Space, which has not changed since Unicode 6.3.
constexpr CodePointRange kSpaces[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                      {0x205f, 0x205f}, {0x3000, 0x3000}};

// A class for each code point: a megabyte, of which a text uses a few pages.
std::vector<CharacterClass> make_classes() {
  std::vector<CharacterClass> classes(0x110000, CharacterClass::kOther);
  const auto mark = [&](std::span<const CodePointRange> ranges, CharacterClass value) {
    for (const CodePointRange& range : ranges)
      std::fill(classes.begin() + range.first, classes.begin() + range.last + 1, value);
  };
  mark(kLetters, CharacterClass::kLetter);
  mark(kNumbers, CharacterClass::kNumber);
  mark(kSpaces, CharacterClass::kSpace);
  return classes;
}

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

CharacterClass character_class(uint32_t code_point) {
  static const std::vector<CharacterClass> classes = make_classes();
  return code_point < classes.size() ? classes[code_point] : CharacterClass::kOther;
}

bool PieceScanner::next() {
  if (rest_ == end_) return false;
  const char* const begin = rest_;
  rest_ = piece_end(begin, end_);
  piece_ = std::string_view(begin, static_cast<size_t>(rest_ - begin));
  return true;
}

}  // namespace pipeline::text
