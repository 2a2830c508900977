#pragma once

#include <cstddef>
#include <string_view>

namespace pipeline::summarization {

// Where the text stops being UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF): a byte offset,
// or npos.
size_t first_invalid_utf8(std::string_view text);

// Nothing but white space, zero-width characters included. The text is UTF-8.
bool is_blank(std::string_view text);

}  // namespace pipeline::summarization
