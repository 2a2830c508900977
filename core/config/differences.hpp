#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"

namespace pipeline::config {

// One key whose value has changed since the run was started.
struct Difference {
  std::string key;
  std::string before;  // as TOML source; "" if there was none
  std::string now;
  Origin origin;    // of the new value
  bool may_change;  // it cannot change the result, or is meant to be changed (length of training, devices,
                    // ...)
  bool with_its_plugin;  // it came or went with a strategy or backend; a run may continue under another
};

// Compares the resolved config stored by a run (Config::to_toml of its stage) with the one in force.
std::vector<Difference> differences(std::string_view stored_toml, const Config& now,
                                    std::span<const PluginConfig* const> plugins = {});

// Throws ConfigError if keys that must not change have changed, with both values of each; returns the
// allowed differences. `where` names the stored config: "runs/x/checkpoints/step-200".
std::vector<Difference> require_resumable(std::string_view stored_toml, std::string_view where,
                                          const Config& now,
                                          std::span<const PluginConfig* const> plugins = {});

}  // namespace pipeline::config
