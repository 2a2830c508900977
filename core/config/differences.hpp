#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"

namespace pipeline::config {

// One key whose value is not what it was when the run was started.
struct Difference {
  std::string key;
  std::string before;  // as TOML source; "" where there was none
  std::string now;
  Origin origin;    // of the value now
  bool may_change;  // it cannot change the result, or is meant to be changed (length of training, devices,
                    // ...)
  bool with_its_plugin;  // it came or went with a strategy or a backend, under which a run may go on
};

// Compares the resolved config that a run stored (Config::to_toml of its stage) with the one in force.
std::vector<Difference> differences(std::string_view stored_toml, const Config& now,
                                    std::span<const PluginConfig* const> plugins = {});

// Throws ConfigError with both values of every key that must not change; returns the differences that are
// allowed. `where` names the stored one: "runs/x/checkpoints/step-200".
std::vector<Difference> require_resumable(std::string_view stored_toml, std::string_view where,
                                          const Config& now,
                                          std::span<const PluginConfig* const> plugins = {});

}  // namespace pipeline::config
