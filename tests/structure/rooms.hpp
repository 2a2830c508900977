// A folder of plugins is a library, a namespace and a room: the three have one name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipeline::tests {

// One problem a line, with file and line; none if for every folder with sources in `root`'s plugins/data,
// plugins/models, plugins/scores and plugins/tasks
// - each header opens pipeline::FOLDER, in tasks pipeline::tasks::FOLDER, or a namespace within it; a header
// in a folder within the room may open one of that folder's name beside it, as transformer/cuda does;
// - its CMakeLists.txt adds a library or a plugin of the name FOLDER;
// - tasks have no folders within them.
std::vector<std::string> problems_with_rooms(const std::filesystem::path& root);

}  // namespace pipeline::tests
