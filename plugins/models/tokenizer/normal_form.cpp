#include "tokenizer/normal_form.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/base/utf8.hpp"

namespace pipeline::tokenizer {

std::string_view composed(std::string_view text, std::string& kept) {
  // Characters below U+0300, whose first byte is below 0xCC, are what they are in this form.
  const auto may_change = [](char c) { return static_cast<uint8_t>(c) >= 0xCC; };
  if (std::ranges::none_of(text, may_change)) return text;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> holds(made, std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) return text;
  kept.assign(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
  return kept;
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
