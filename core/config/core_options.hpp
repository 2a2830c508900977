#pragma once

#include <span>
#include <string_view>

#include "pipeline.h"

namespace pipeline::config {

// Every option of the core itself, by full key ("train.max_steps"), in the order they are shown. Static.
std::span<const pl_option> core_options();

// The tables whose keys, but for the core's own, belong to a plugin.
inline constexpr std::string_view kPluginTables[] = {"task", "strategy", "backend"};

}  // namespace pipeline::config
