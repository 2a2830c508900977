// Text that is no TOML: what must not reach the parser, and what is wrong where the parser fails, in plain
// words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/config/error.hpp"

namespace pipeline::config {

// Throws ConfigError for text that must not reach the parser: not UTF-8, a NUL byte, characters beyond ASCII
// outside of strings and comments (toml++ 3.3 has undefined behaviour there), or keys so deep that it would
// exhaust the stack.
void refuse_unreadable(std::string_view text, const std::string& file);

// "file:line:column: ".
std::string at(const std::string& file, size_t line, size_t column);

// What toml++ found wrong at line and column (1-based), in plain words.
ConfigError syntax_error(std::string_view text, const std::string& file, size_t line, size_t column,
                         std::string_view description);

}  // namespace pipeline::config
