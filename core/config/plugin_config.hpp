#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/config/settings.hpp"
#include "pipeline.h"

namespace pipeline::config {

// The options of one plugin, which reads them through pl_host.config_*: its table (`[task]`, `[strategy]`,
// `[backend]`), checked against the schema that it publishes. Keys are those of the schema
// ("model.n_head").
class PluginConfig : public Settings {
 public:
  // `prefix`: "task."; `file`: as the user wrote it, for messages; `settings`: already checked.
  PluginConfig(std::string prefix, std::string file, std::vector<Setting> settings);
  PluginConfig(PluginConfig&&) = default;
  PluginConfig& operator=(PluginConfig&&) = default;

  // As the ABI returns them: the pointers are valid as long as this object lives, even if it is moved.
  pl_str string(std::string_view key) const;
  std::span<const pl_str> string_list(std::string_view key) const;

 private:
  // Strings and paths (made absolute) of one key.
  struct Strings {
    std::vector<std::string> storage;
    std::vector<pl_str> views;
  };

  std::map<std::string, std::unique_ptr<Strings>, std::less<>> strings_;
};

// Sets the config_* slots of the host's table.
void fill_config_slots(pl_host& host);

}  // namespace pipeline::config

// The ABI's opaque type is this C++ type.
struct pl_config : pipeline::config::PluginConfig {
  using PluginConfig::PluginConfig;
};
