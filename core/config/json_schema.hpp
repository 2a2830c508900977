#pragma once

#include <span>
#include <string>
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

}  // namespace pipeline::config
