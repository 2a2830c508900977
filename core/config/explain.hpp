#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline.h"

namespace pipeline::config {

// A plugin, as json_schema() and configs_readme() need it.
struct PluginSchema {
  std::string table;  // "task", "strategy", "backend" or "optimizer"
  std::string name;
  std::string summary;
  std::vector<pl_option> options;
};

// JSON Schema (draft 7) of configuration files, for editors: completion, types, ranges, help. A plugin's
// options are offered where `plugin` names it.
std::string json_schema(std::span<const pl_option> core, std::span<const PluginSchema> plugins);

// Options for a terminal, at most `width` columns: under a line [table] for each table, one or more lines
// per key with type, default, and help with unit and range or choices; * marks keys that may change when a
// run is continued. `prefix` is put before each key ("task.").
std::string explain(std::span<const pl_option> options, std::string_view prefix = "", size_t width = 100);

// The options as a Markdown table.
std::string explain_markdown(std::span<const pl_option> options, std::string_view prefix = "");

// A configuration file and its opening comment.
struct ConfigFile {
  std::string name;
  std::string summary;
};

// The .toml files of a folder, sorted by name. Throws ConfigError if the folder cannot be read.
std::vector<ConfigFile> list_configs(const std::string& folder);

// configs/README.md: what each file is for, how values are overridden, and every option of the core and of
// the plugins.
std::string configs_readme(std::span<const ConfigFile> files, std::span<const pl_option> core,
                           std::span<const PluginSchema> plugins);

}  // namespace pipeline::config
