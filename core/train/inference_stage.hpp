// A stage that evaluates, predicts or exports.
#pragma once

#include <string>

#include "core/train/outcome.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/workspace.hpp"

namespace pipeline::train {

// Does it, unless the same was done with the same weights before. `weights`: a run, stage or checkpoint.
Outcome inference_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config, const std::string& weights);

}  // namespace pipeline::train
