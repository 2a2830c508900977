// A .jsonl file of a run as a table for a spreadsheet.
#pragma once

#include <filesystem>
#include <string>

namespace pipeline::report {

// A column for each figure of any line, in the order in which they first appear; numbers as in the file, what
// is not finite as NaN, Infinity or -Infinity, an empty cell where a line has none. A last line that is cut
// short is left out. Throws Error if the file, or any other line of it, cannot be read.
std::string csv_of(const std::filesystem::path& json_lines);

}  // namespace pipeline::report
