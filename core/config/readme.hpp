#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/config/json_schema.hpp"
#include "pipeline.h"

namespace pipeline::config {

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
