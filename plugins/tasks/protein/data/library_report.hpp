#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/tasks/protein/data/input_files.hpp"

namespace pipeline::protein {

// A file's path as the log can show it.
std::string printable_path(const std::string& path);

// Files that cannot be used, and behind a line that says so those that can but look odd: path and text in
// aligned columns, a line each with its end; of both kinds the first `most`, and where all are.
std::string library_report(const std::vector<FileNote>& unusable, const std::vector<FileNote>& odd,
                           size_t most, const std::string& all_path);

// Copies of other files, in the same way, behind a line that says so; empty if there are none.
std::string copies_report(const std::vector<FileNote>& copies);

// Puts a report there, or removes it if it is empty. What is there already and right is not written again.
// False if that cannot be done.
bool write_report(const std::string& text, const std::string& path);

}  // namespace pipeline::protein
