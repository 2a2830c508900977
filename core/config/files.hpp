#pragma once

#include <optional>
#include <string>

#include "core/config/document.hpp"

namespace pipeline::config {

// Text of a configuration file. Throws ConfigError: missing (with files of a similar name), a folder,
// unreadable, too large. `problem_prefix` comes before the message ("configs/x.toml:1: extends =
// \"base.toml\": " or "").
std::string read_file(const std::string& file, const std::string& problem_prefix);

// The file with everything that it extends below it: tables merged, values and lists replaced.
Document read_with_bases(const std::string& file);

}  // namespace pipeline::config
