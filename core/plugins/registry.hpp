#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plugins/plugin.hpp"

namespace pipeline::plugins {

// A folder to search for plugins: the folder itself and its sub-folders tasks/, strategies/,
// backends/ and optimizers/.
struct SearchFolder {
  std::filesystem::path path;
  std::string origin;  // who named it: "plugins.paths", "PIPELINE_PLUGIN_PATH", "beside the program"
};

// Returns, in this order: `given` (--plugin-path, then [plugins] paths), the folders in the environment
// variable PIPELINE_PLUGIN_PATH (separated by colons), and ../lib/pipeline/plugins, relative to the
// program's folder. Throws Error (PL_ERROR_CONFIG) if a named one is not a folder.
std::vector<SearchFolder> search_folders(const std::vector<SearchFolder>& given);

// One file found by list().
struct Listing {
  std::string kind;  // "task", ...; empty if not known
  std::string name;
  std::string version;
  std::string summary;
  std::filesystem::path path;
  std::string abi;      // "1.1", as it was built
  std::string runtime;  // "torch 2.11.0+cu130 cxx11-abi"; empty: none
  std::string options;  // explained, for people; empty: none
  std::string problem;  // why it does not load or cannot be used; empty: none
};

// Finds plugins by name. The file of plugin NAME is NAME.so, in the sub-folder of its kind or in the folder
// itself, so only the requested plugin is loaded. Which of two files was meant only the user knows. [main]
class Registry {
 public:
  explicit Registry(std::vector<SearchFolder> folders) : folders_(std::move(folders)) {}

  // Throws Error if it is not found (naming the folders searched and similar names), if two files have this
  // name (naming both), or if it does not load.
  const Plugin& find(Kind kind, std::string_view name);

  // Returns the files of this name, of any kind, without loading anything.
  std::vector<std::filesystem::path> files(std::string_view name) const;

  // Lists every plugin file in the folders; loads each in its own process, so a broken one does no harm.
  std::vector<Listing> list() const;

  // Returns the names that find() would consider, without loading anything.
  std::vector<std::string> names(Kind kind) const;

  // Returns every plugin of a kind that find() would find and that loads.
  std::vector<const Plugin*> all(Kind kind);

  // Returns the options of all plugins of a kind ("strategy"): key ("zero_stage") and the names of the
  // plugins that have it.
  std::map<std::string, std::vector<std::string>> options_of_all(std::string_view kind);

  const std::vector<SearchFolder>& folders() const { return folders_; }

 private:
  [[noreturn]] void not_found(Kind kind, std::string_view name) const;

  std::vector<SearchFolder> folders_;
  std::map<std::pair<Kind, std::string>, const Plugin*> found_;
};

}  // namespace pipeline::plugins
