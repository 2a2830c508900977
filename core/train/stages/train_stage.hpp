// A stage that trains.
#pragma once

#include <string>

#include "core/train/run/run_folder.hpp"
#include "core/train/run/signals.hpp"
#include "core/train/run/workspace.hpp"

namespace pipeline::train {

// Trains, or goes on, in the folder; nothing where the same is finished there. `weights`: what it begins
// from, as find_origin() takes it.
Outcome train_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config,
                    const std::string& weights);

}  // namespace pipeline::train
