#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pipeline::protein {

struct UnusableFile;

// Path and reason in aligned columns, a line each with its end; the first `most` files, and where more are.
std::string unusable_table(const std::vector<UnusableFile>& files, size_t most, const std::string& all_path);

// Puts the table of all files there, or removes it if there are none. What is there already and right is not written again. False if
// that cannot be done.
bool write_unusable(const std::vector<UnusableFile>& files, const std::string& path);

}  // namespace pipeline::protein
