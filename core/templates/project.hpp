// A plugin of the user's own, outside this repository: what `pipeline new` makes.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugins/plugin.hpp"

namespace pipeline::templates {

struct File {
  std::filesystem::path path;  // in the project's folder
  std::string text;
};

// The languages that a template of this kind exists in, the default first.
std::vector<std::string> languages(plugins::Kind kind);

// Throws Error (PL_ERROR_CONFIG) if no plugin can be called this: the name becomes that of a CMake target, of
// files and macros.
void check_name(std::string_view name);

// The files of a project that builds, keeps a plugin's promises and trains as it is. `language` is one of
// languages(), `name` passes check_name().
std::vector<File> make_project(plugins::Kind kind, std::string_view language, std::string_view name);

// Writes the files into a new folder. Throws Error if there is such a folder or file already, and leaves
// nothing behind if it cannot write.
void write_project(const std::filesystem::path& folder, std::span<const File> files);

// The files that are built in, by their path in this repository.
const std::map<std::string_view, std::string_view>& sources();

}  // namespace pipeline::templates
