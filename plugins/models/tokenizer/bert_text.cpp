#include "tokenizer/bert_text.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "core/base/utf8.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace pipeline::tokenizer {
namespace {

#include "plugins/models/tokenizer/bert_ranges.inc"

template <size_t count>
bool is_in(const CodePointRange (&ranges)[count], uint32_t character) {
  const auto* const found = std::ranges::lower_bound(ranges, character, {}, &CodePointRange::last);
  return found != std::end(ranges) && found->first <= character;
}

bool is_space(uint32_t character) { return character_class(character) == CharacterClass::kSpace; }

// Calls take() with each character and its bytes.
template <class Take>
void each_character(std::string_view text, Take&& take) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const CodePoint character = decode_utf8(p, end);
    take(character.value, std::string_view(p, character.bytes));
    p += character.bytes;
  }
}

}  // namespace

std::string BertText::normalized(std::string_view text) const {
  std::string clean;
  each_character(text, [&](uint32_t character, std::string_view bytes) {
    if (cleans && is_in(kRemoved, character)) return;
    const bool is_blank = cleans && is_space(character);
    const bool is_ideograph = parts_ideographs && is_in(kIdeographs, character);
    if (is_ideograph) clean += ' ';
    clean += is_blank ? std::string_view(" ") : bytes;
    if (is_ideograph) clean += ' ';
  });
  if (strips_accents) {
    std::string bare, kept;
    each_character(decomposed(clean, kept), [&](uint32_t character, std::string_view bytes) {
      if (!is_in(kMarks, character)) bare += bytes;
    });
    clean = std::move(bare);
  }
  return lowers ? lowered(clean) : clean;
}

void each_bert_word(std::string_view text, const std::function<void(std::string_view word)>& word) {
  const char* begin = nullptr;  // of the word at hand
  const auto end_at = [&](const char* end) {
    if (begin != nullptr) word({begin, static_cast<size_t>(end - begin)});
    begin = nullptr;
  };
  each_character(text, [&](uint32_t character, std::string_view bytes) {
    const bool is_mark = is_in(kPunctuation, character);
    if (is_mark || is_space(character)) {
      end_at(bytes.data());
      if (is_mark) word(bytes);
    } else if (begin == nullptr) {
      begin = bytes.data();
    }
  });
  end_at(text.data() + text.size());
}

}  // namespace pipeline::tokenizer
