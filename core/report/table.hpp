#pragma once

#include <string>
#include <vector>

namespace pipeline::report {

// Columns as wide as their widest cell, two spaces apart, a line a row whatever is in its cells.
std::string aligned(std::vector<std::vector<std::string>> rows);

}  // namespace pipeline::report
