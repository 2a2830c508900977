#include "tokenizer/pre_tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "core/base/utf8.hpp"

namespace pipeline::tokenizer {
namespace {

#include "plugins/models/tokenizer/unicode_ranges.inc"

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

inline bool is_line_end(char c) { return c == '\r' || c == '\n'; }

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

// contraction_bytes() in any case. The long s, U+017F, is an s then too.
size_t contraction_bytes_in_any_case(const char* apostrophe, const char* end) {
  char lower[3] = {'\'', 0, 0};
  for (int i = 1; i < 3 && i < end - apostrophe; ++i) {
    const char c = apostrophe[i];
    lower[i] = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  }
  if (std::string_view(lower + 1, 2) == "\u017f") return 3;
  return contraction_bytes(lower, lower + std::min<ptrdiff_t>(end - apostrophe, 3));
}

// The end of the characters of one class that begin with `first`, which stands at p.
inline const char* run_end(const char* p, const char* end, Character first) {
  Character character = first;
  do {
    p += character.bytes;
  } while (p != end && (character = character_at(p, end)).type == first.type);
  return p;
}

// White space from p, of which there is some.
struct Spaces {
  const char* last;  // the last character of it
  const char* end;
  Character next;  // after it, unless that is the end of the text
};

inline Spaces spaces_at(const char* p, const char* end) {
  Spaces spaces{p, p, {CharacterClass::kSpace, 0}};
  do {
    spaces.last = spaces.end;
    spaces.end += character_at(spaces.end, end).bytes;
  } while (spaces.end != end && (spaces.next = character_at(spaces.end, end)).type == CharacterClass::kSpace);
  return spaces;
}

// \s+(?!\S)|\s+
inline const char* without_last(const char* p, const char* end, const Spaces& spaces) {
  return spaces.end == end || spaces.last == p ? spaces.end : spaces.last;
}

// The end of the piece that begins at p. A run of letters, numbers or others may take one U+0020 before it;
// so a run of white space before such a run leaves its last character to the next piece, of which only U+0020
// joins the run.
const char* gpt2_piece_end(const char* p, const char* end) {
  if (*p == '\'') {
    if (const size_t bytes = contraction_bytes(p, end)) return p + bytes;
  }
  const char* run = p + (*p == ' ' && end - p > 1 ? 1 : 0);
  const Character character = character_at(run, end);
  if (character.type != CharacterClass::kSpace) return run_end(run, end, character);
  return without_last(p, end, spaces_at(p, end));
}

// GPT-2's pieces, but that a number ends a text: white space before it stays together.
const char* smol_lm_piece_end(const char* p, const char* end) {
  if (*p == '\'') {
    if (const size_t bytes = contraction_bytes(p, end)) return p + bytes;
  }
  const char* run = p + (*p == ' ' && end - p > 1 ? 1 : 0);
  const Character character = character_at(run, end);
  if (character.type == CharacterClass::kNumber) return run == p ? run + character.bytes : run;
  if (character.type != CharacterClass::kSpace) return run_end(run, end, character);
  const Spaces spaces = spaces_at(p, end);
  if (spaces.next.type == CharacterClass::kNumber) return spaces.end;
  return without_last(p, end, spaces);
}

// One character that is no letter, number or line end may stand before letters; a U+0020 before others, and
// line ends after them. White space is cut after its last line end. Of numbers so many stay together.
template <int most_digits>
const char* llama3_piece_end(const char* p, const char* end) {
  if (*p == '\'') {
    if (const size_t bytes = contraction_bytes_in_any_case(p, end)) return p + bytes;
  }
  const Character first = character_at(p, end);
  if (first.type == CharacterClass::kLetter) return run_end(p, end, first);
  const char* run = p + first.bytes;
  if (first.type == CharacterClass::kNumber) {
    for (int digits = 1; digits < most_digits && run != end; ++digits) {
      const Character character = character_at(run, end);
      if (character.type != CharacterClass::kNumber) break;
      run += character.bytes;
    }
    return run;
  }
  const Character second = run == end ? Character{CharacterClass::kSpace, 0} : character_at(run, end);
  if (second.type == CharacterClass::kLetter && !is_line_end(*p)) return run_end(run, end, second);
  const bool joins = *p == ' ' && second.type == CharacterClass::kOther;
  if (first.type == CharacterClass::kOther || joins) {
    run = joins ? run_end(run, end, second) : run_end(p, end, first);
    while (run != end && is_line_end(*run)) ++run;
    return run;
  }
  const Spaces spaces = spaces_at(p, end);
  for (const char* last = spaces.end; last != p; --last)
    if (is_line_end(last[-1])) return last;
  return without_last(p, end, spaces);
}

const char* clip_piece_end(const char* p, const char* end) {
  if (*p == '\'') {
    if (const size_t bytes = contraction_bytes(p, end)) return p + bytes;
  }
  const Character first = character_at(p, end);
  return first.type == CharacterClass::kNumber ? p + first.bytes : run_end(p, end, first);
}

}  // namespace

CharacterClass character_class(uint32_t code_point) {
  static const std::vector<CharacterClass> classes = make_classes();
  return code_point < classes.size() ? classes[code_point] : CharacterClass::kOther;
}

PieceScanner::PieceEnd PieceScanner::scanner_of(PreTokenizer kind) {
  switch (kind) {
    case PreTokenizer::kSmolLm:
      return smol_lm_piece_end;
    case PreTokenizer::kLlama3:
      return llama3_piece_end<3>;
    case PreTokenizer::kQwen2:
      return llama3_piece_end<1>;
    case PreTokenizer::kClip:
      return clip_piece_end;
    case PreTokenizer::kGpt2:
      break;
  }
  return gpt2_piece_end;
}

namespace {

std::string_view in_normal_form(std::string_view text, int form, std::string& kept) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> holds(made, std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) return text;
  kept.assign(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
  return kept;
}

// Whether a text may have characters from this first byte on.
bool has_bytes_from(std::string_view text, uint8_t first) {
  return std::ranges::any_of(text, [first](char c) { return static_cast<uint8_t>(c) >= first; });
}

}  // namespace

std::string_view composed(std::string_view text, std::string& kept) {
  // Characters below U+0300 are what they are in this form.
  return has_bytes_from(text, 0xCC) ? in_normal_form(text, UTF8PROC_COMPOSE, kept) : text;
}

std::string_view decomposed(std::string_view text, std::string& kept) {
  return has_bytes_from(text, 0x80) ? in_normal_form(text, UTF8PROC_DECOMPOSE, kept) : text;
}

std::string lowered(std::string_view text) {
  constexpr uint32_t kDottedI = 0x130;  // becomes two characters
  std::string result;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const CodePoint character = decode_utf8(p, end);
    const auto lower =
        static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.value)));
    if (character.value == kDottedI)
      result += "i\u0307";
    else if (lower != character.value)
      append_utf8(lower, result);
    else
      result.append(p, character.bytes);
    p += character.bytes;
  }
  return result;
}

}  // namespace pipeline::tokenizer
