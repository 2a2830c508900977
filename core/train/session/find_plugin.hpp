#pragma once

#include <string>

#include "core/config/config.hpp"
#include "core/plugins/registry.hpp"

namespace pipeline::train {

// The plugin that `key`, or what is in force in its place, names. Throws ConfigError with the key's origin
// where it is not to be had.
const plugins::Plugin& find_plugin(const config::Config& config, plugins::Registry& registry,
                                   plugins::Kind kind, const std::string& name, const char* key);

}  // namespace pipeline::train
