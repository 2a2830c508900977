#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline.h"

namespace pipeline::config {

// A plugin as the schema and the README see it.
struct PluginSchema {
  std::string table;  // "task", "strategy" or "backend"
  std::string name;
  std::string summary;
  std::vector<pl_option> options;
};

// JSON Schema (draft 7) of configuration files, for editors: completion, types, ranges, help. Options of a
// plugin are offered where `plugin` names it.
std::string json_schema(std::span<const pl_option> core, std::span<const PluginSchema> plugins);

// Options for a terminal, at most `width` columns: below a line [table] for each table, a line or more for
// each key with type, default, and help with unit and range or choices; * marks keys that may change when a
// run is continued. `prefix` is put before each key ("task.").
std::string explain(std::span<const pl_option> options, std::string_view prefix = "", size_t width = 100);

// The same as a Markdown table.
std::string explain_markdown(std::span<const pl_option> options, std::string_view prefix = "");

// A configuration file and the comment that it begins with.
struct ConfigFile {
  std::string name;
  std::string summary;
};

// The .toml files of a folder by name. Throws ConfigError if it cannot be read.
std::vector<ConfigFile> list_configs(const std::string& folder);

// configs/README.md: what each file is for, how values are overridden, and every option of the core and of
// the plugins.
std::string configs_readme(std::span<const ConfigFile> files, std::span<const pl_option> core,
                           std::span<const PluginSchema> plugins);

}  // namespace pipeline::config
