#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::plugins {

// The names of the symbols that a 64-bit ELF library exports, as `nm -D --defined-only` shows them. Throws
// Error for a file that is none or is damaged.
std::vector<std::string> exported_symbols(const std::filesystem::path& file);

}  // namespace pipeline::plugins
