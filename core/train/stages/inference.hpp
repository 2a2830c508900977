#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/registry.hpp"
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
  uint64_t samples = 0;  // to predict: the first so many; 0: all
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

// What a verb or a stage without training works with: the weights that it names, looked at before anything is
// made for the work, and the options that a finished one was made with.

// Throws Error (PL_ERROR_CONFIG) where there are no weights in `args.checkpoint`, saying what is there and
// what to do: no run yet, a hub's id, an adapter without its model, a folder too high. So it does where an
// average or a moving average is asked of the model folder of another tool, which has one state.
void require_named_weights(const config::Config& config, plugins::Registry& registry,
                           const InferenceArgs& args);

// The options of `task` that take an adapter's folder, with the table's name: "task.language.lora.init_from";
// one for each kind of model. Empty: it takes none.
std::vector<std::string> adapter_options(const plugins::Plugin& task);

// Tells a model folder whose files have changed from what it was: names, sizes and times.
std::string state_of_folder(const std::string& folder);

// The options that are not what they were when a stage without training was made, with both values. Those
// that its result does not depend on do not count: what training alone reads, such as [optimizer], what is
// observed, where the run's folder is, and how a path in it begins. `stored_toml`: what the stage was made
// with; `now`, `plugins`: what it would be made with.
std::vector<std::string> other_options(std::string_view stored_toml, const config::Config& now,
                                       std::span<const config::PluginConfig* const> plugins);

}  // namespace pipeline::train
