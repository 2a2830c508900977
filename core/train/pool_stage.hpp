// A stage of kind "pool": adds up the evaluations of the stages before it.
#pragma once

#include "core/config/config.hpp"
#include "core/train/outcome.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/runner.hpp"

namespace pipeline::train {

// Throws ConfigError for pools of `whole` that cannot be right, so that this shows before anything is trained.
void check_pools(const config::Config& whole);

// Does it, unless these evaluations were added up with these options before. `stage`: of workspace.config.
Outcome pool_stage(const Workspace& workspace, RunFolder& folder, const config::Config& stage);

}  // namespace pipeline::train
