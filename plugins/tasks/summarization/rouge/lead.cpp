#include "plugins/tasks/summarization/rouge/lead.hpp"

#include <algorithm>

namespace pipeline::rouge {
namespace {

// Bytes of white space at the start of the text: one character, or none. The characters are those of Python's
// str.isspace().
size_t space_at(std::string_view text) {
  const auto c = static_cast<unsigned char>(text[0]);
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f) ? 1 : 0;
  static constexpr std::string_view kSpaces[] = {
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  for (const auto space : kSpaces) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

}  // namespace

std::string lead_words(std::string_view document, size_t count) {
  std::string lead;
  size_t words = 0;
  bool in_word = false;
  for (size_t i = 0; i < document.size();) {
    if (const size_t space = space_at(document.substr(i))) {
      in_word = false;
      i += space;
      continue;
    }
    if (!in_word) {
      if (words == count) break;
      if (words++ > 0) lead += ' ';
      in_word = true;
    }
    lead += document[i++];
  }
  return lead;
}

}  // namespace pipeline::rouge
