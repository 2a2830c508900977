// Runs what a configuration says: its stages in order, or one verb on what an earlier run left.
#pragma once

#include <filesystem>
#include <string>

#include "core/train/run/signals.hpp"
#include "core/train/run/workspace.hpp"

namespace pipeline::train {

// Trains, evaluates, predicts, exports, adds up: every stage that is not finished yet, or the one that
// --stage names. `fresh`: older results are moved aside first.
Outcome run_stages(const Workspace& workspace, bool fresh);

// A verb on a finished or unfinished run.
struct VerbArgs {
  std::string checkpoint = "best";  // best, last, or a path
  std::string split;                // empty: evaluate.split
  std::filesystem::path output;     // empty: in the run's folder
};

Outcome evaluate_run(const Workspace& workspace, const VerbArgs& args);
Outcome predict_run(const Workspace& workspace, const VerbArgs& args);
Outcome export_run(const Workspace& workspace, const VerbArgs& args);

}  // namespace pipeline::train
