// Tables that are divided into folders by the values of columns, as Hive, Spark and DuckDB write them:
// year=2024/lang=en/part-0.parquet.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipeline::sources {

// "year=2024": a folder of what has this value in a column.
inline bool is_partition(std::string_view name) { return name.find('=', 1) != name.npos; }

// Columns that a file's folders give one value for all of its records, the outermost folder first.
std::vector<std::pair<std::string, std::string>> partition_of(const std::filesystem::path& path);

}  // namespace pipeline::sources
