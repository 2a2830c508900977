#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::report {

// Columns as wide as their widest cell, two spaces apart, a line a row whatever is in its cells.
std::string aligned(std::vector<std::vector<std::string>> rows);

// A .jsonl file of a run as a table for a spreadsheet.
// A column for each figure of any line, in the order in which they first appear; numbers as in the file, what
// is not finite as NaN, Infinity or -Infinity, an empty cell where a line has none. A last line that is cut
// short is left out. Throws Error if the file, or any other line of it, cannot be read.
std::string csv_of(const std::filesystem::path& json_lines);

}  // namespace pipeline::report
