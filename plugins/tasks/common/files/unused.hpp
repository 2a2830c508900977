#pragma once

#include <cstdint>
#include <regex>
#include <string>

namespace pipeline::files {

// "12.3 MB"
std::string megabytes(uint64_t bytes);

// An entry of a cache folder counts as used when it is written and when this is called for it.
void mark_used(const std::string& path);

// Removes the entries of the folder that nothing has used for 30 days and whose whole name matches: others'
// entries in the folder are not the caller's to remove. A line for the log that names what was removed and
// its size; empty if there was nothing.
std::string remove_unused(const std::string& folder, const std::regex& names);

}  // namespace pipeline::files
