// What the names of files and folders say.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipeline::sources {

// Tables may be divided into folders by the values of columns, as Hive, Spark and DuckDB write them:
// year=2024/lang=en/part-0.parquet.

// "year=2024": a folder of what has this value in a column.
inline bool is_partition(std::string_view name) { return name.find('=', 1) != name.npos; }

// Columns that a file's folders give one value for all of its records, the outermost folder first.
std::vector<std::pair<std::string, std::string>> partition_of(const std::filesystem::path& path);

// The names that a name with braces stands for, as in a shell and in WebDataset's lists of archives:
// "shard-{00000..00012}.tar", "{train,extra}.jsonl". Without braces, the name alone. Throws DataError for
// more than a million.
std::vector<std::string> expand_braces(const std::string& name);

// Whether the ending of its name is a picture's.
bool is_picture(std::string_view name);

// The files of a folder in which pictures have texts of their names beside them (cat.jpg and cat.txt,
// cat.caption or cat.json), by name; nothing where it has none, or other files that can be read as records.
std::vector<std::string> pictures_with_texts(const std::string& folder);

}  // namespace pipeline::sources
