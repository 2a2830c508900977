// Checks which folders include which against a table that says which may.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::tests {

// One problem a line, in the order of the files; none if every include of the sources below `root`'s folders
// core, plugins and backends goes to a folder that `table` allows, nothing is allowed that no file uses, and
// what is allowed has no circles.
//
// `table` has a line for every folder with sources, "core/launch: core/base core/observe", which may go on in
// the lines after it. "LibTorch" stands for its headers. # begins a comment. A folder may include itself.
std::vector<std::string> problems_with_includes(const std::filesystem::path& root, const std::string& table);

}  // namespace pipeline::tests
