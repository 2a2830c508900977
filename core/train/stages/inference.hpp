#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/train/stages/stages.hpp"

namespace pipeline::train {

// What is done with the weights of a checkpoint, without training: by all ranks together, whatever wrote the
// checkpoint.
struct InferenceArgs {
  std::string checkpoint;                 // a checkpoint, a run's folder, or the model folder of another tool
  std::string named_by = "--checkpoint";  // for people
  bool last = false;                      // of a folder: the newest one instead of the best
  uint64_t average = 1;  // the mean of so many checkpoints' weights: this one's and of those before it
  bool ema = false;      // the moving average of the weights, which the run has kept
  std::string split;     // empty: evaluate.split
  std::filesystem::path folder;  // the run's (or stage's) own
  std::filesystem::path output;  // empty: in `folder`
};

// "evaluate": prints the figures and writes evaluation-SPLIT.json. "predict": writes submission.csv.
// "export": writes the folder `export`, in the form that other tools load.
Outcome infer(std::string_view verb, const config::Config& config, const Workspace& workspace,
              const InferenceArgs& args);

// Calls talk() with these weights.
Outcome converse(const config::Config& config, const Workspace& workspace, const InferenceArgs& args,
                 const std::function<void(const Reply& reply)>& talk);

// Does what the stage is for, unless the same was done before. `weights`: a run, stage or checkpoint.
Outcome inference_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config,
                        const std::string& weights, const OnBegin& on_begin);

}  // namespace pipeline::train
