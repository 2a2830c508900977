// Files that a task makes beside a result: pictures, tables.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace pipeline::train {

// For results/x.csv: results/x-files.
std::filesystem::path side_files_of(const std::filesystem::path& output);

// Makes the folder if need be; replaces a file of that name. Throws Error with path and cause.
void write_side_file(const std::filesystem::path& folder, std::string_view name, std::span<const std::byte> bytes);

}  // namespace pipeline::train
