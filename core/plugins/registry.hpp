#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plugins/plugin.hpp"

namespace pipeline::plugins {

// A folder that plugins are looked for in, itself and in its sub-folders tasks/, strategies/ and backends/.
struct SearchFolder {
  std::filesystem::path path;
  std::string origin;  // who named it: "plugins.paths", "PIPELINE_PLUGIN_PATH", "beside the program"
};

// In search order: those given (--plugin-path, then [plugins] paths), those of the environment variable
// PIPELINE_PLUGIN_PATH (separated by colons), and ../lib/pipeline/plugins beside the program. Throws Error
// (PL_ERROR_CONFIG) for one that was named and is no folder.
std::vector<SearchFolder> search_folders(const std::vector<SearchFolder>& given);

// One file found by list().
struct Listing {
  std::string kind;  // "task", ...; empty when that is not known
  std::string name;
  std::string version;
  std::string summary;
  std::filesystem::path path;
  std::string problem;  // why it does not load or is not used; empty: fine
};

// Finds plugins by name. The file of plugin NAME is NAME.so in the sub-folder of its kind or in the folder
// itself, so only what is asked for is loaded. [main]
class Registry {
 public:
  using Note = std::function<void(const std::string& line)>;

  // `note` receives what the user should know without its being an error, e.g. that the same name was found
  // twice.
  Registry(std::vector<SearchFolder> folders, Note note);

  // Throws Error: not found (with the folders searched and what may have been meant), or found and not
  // loadable.
  const Plugin& find(Kind kind, std::string_view name);

  // Every plugin file in the folders, each loaded in a process of its own, so that a broken one harms nobody.
  std::vector<Listing> list() const;

  // Names that find() would look at, without loading anything.
  std::vector<std::string> names(Kind kind) const;

  // Every plugin of a kind that find() would find and that loads.
  std::vector<const Plugin*> all(Kind kind);

  // Names of those of the kind that is called `kind` ("strategy") that have an option `key` ("zero_stage").
  std::vector<std::string> names_with_option(std::string_view kind, std::string_view key);

  const std::vector<SearchFolder>& folders() const { return folders_; }

 private:
  [[noreturn]] void not_found(Kind kind, std::string_view name) const;

  std::vector<SearchFolder> folders_;
  Note note_;
  std::map<std::pair<Kind, std::string>, const Plugin*> found_;
};

}  // namespace pipeline::plugins
