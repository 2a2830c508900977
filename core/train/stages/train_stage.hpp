#pragma once

#include <string>

#include "core/train/stages/stages.hpp"

namespace pipeline::train {

// Trains, or goes on, in the folder; nothing where the same is finished there. `weights`: what it begins
// from, as find_origin() takes it.
Outcome train_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config,
                    const std::string& weights, const OnBegin& on_begin);

}  // namespace pipeline::train
