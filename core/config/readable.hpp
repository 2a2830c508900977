#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipeline::config {

// Throws ConfigError for text that must not reach the parser: not UTF-8, a NUL byte, characters beyond ASCII
// outside of strings and comments (toml++ 3.3 has undefined behaviour there), or keys so deep that it would
// exhaust the stack.
void refuse_unreadable(std::string_view text, const std::string& file);

// Bytes of the UTF-8 character at the beginning of `text`, 0 if there is none (RFC 3629: no surrogates, no
// overlong forms).
size_t character_length(std::string_view text);

// "file:line:column: ".
std::string at(const std::string& file, size_t line, size_t column);

}  // namespace pipeline::config
