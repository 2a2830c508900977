#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/config/error.hpp"

namespace pipeline::config {

// What toml++ found wrong at line and column (1-based), in plain words.
ConfigError syntax_error(std::string_view text, const std::string& file, size_t line, size_t column,
                         std::string_view description);

}  // namespace pipeline::config
