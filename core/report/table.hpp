#pragma once

#include <string>
#include <vector>

namespace pipeline::report {

// Columns as wide as their widest cell, two spaces apart.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace pipeline::report
