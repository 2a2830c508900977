// Text that is not TOML: what must not reach the parser, and plain messages where the parser fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/config/error.hpp"

namespace pipeline::config {

// Throws ConfigError for text that must not reach the parser: not UTF-8, a NUL byte, non-ASCII characters
// outside of strings and comments (toml++ 3.3 has undefined behaviour there), or keys nested so deeply that
// it would exhaust the stack.
void refuse_unreadable(std::string_view text, const std::string& file);

// "file:line:column: ".
std::string at(const std::string& file, size_t line, size_t column);

// Says in plain words what toml++ found wrong at line and column (1-based).
ConfigError syntax_error(std::string_view text, const std::string& file, size_t line, size_t column,
                         std::string_view description);

}  // namespace pipeline::config
