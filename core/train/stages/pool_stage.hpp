// A stage of kind "pool": adds up the evaluations of the stages before it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"
#include "core/train/run/run_folder.hpp"
#include "core/train/run/signals.hpp"
#include "core/train/run/workspace.hpp"

namespace pipeline::train {

// Throws ConfigError for a stage of kind "pool" of `whole` that cannot be right, before anything is trained.
void check_pool(const config::Config& whole, const config::Config& stage);

// The options that are not what they were when a stage was made, with both values: where the run's folder is,
// and how a path in it begins, do not count. `stored_toml`: what the stage was made with; `now`, `plugins`:
// what it would be made with.
std::vector<std::string> other_options(std::string_view stored_toml, const config::Config& now,
                                       std::span<const config::PluginConfig* const> plugins);

// Does it, unless these evaluations were added up with these options before. `stage`: of workspace.config.
Outcome pool_stage(const Workspace& workspace, RunFolder& folder, const config::Config& stage);

}  // namespace pipeline::train
