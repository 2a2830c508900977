// What is done with the weights of a checkpoint, without training: by all ranks together, whatever wrote the
// checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "core/train/run/run_folder.hpp"
#include "core/train/run/signals.hpp"
#include "core/train/run/workspace.hpp"

namespace pipeline::train {

struct InferenceArgs {
  std::string checkpoint;        // a checkpoint or a run's folder
  bool last = false;             // of a folder: the newest one instead of the best
  std::string split;             // empty: evaluate.split
  std::filesystem::path folder;  // the run's (or stage's) own
  std::filesystem::path output;  // empty: in `folder`
};

// Prints the figures and writes evaluation-SPLIT.json.
Outcome evaluate_checkpoint(const config::Config& config, const Workspace& workspace,
                            const InferenceArgs& args);
// Writes submission.csv.
Outcome predict_with_checkpoint(const config::Config& config, const Workspace& workspace,
                                const InferenceArgs& args);
// Writes the folder `export`, in the form that other tools load.
Outcome export_checkpoint(const config::Config& config, const Workspace& workspace,
                          const InferenceArgs& args);

// Does it, unless the same was done with the same weights before. `weights`: a run, stage or checkpoint.
Outcome inference_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config,
                        const std::string& weights);

}  // namespace pipeline::train
