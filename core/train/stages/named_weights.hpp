// What a verb or a stage names as the weights to work with, looked at before anything is made for the work.
#pragma once

#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/registry.hpp"
#include "core/train/stages/inference.hpp"

namespace pipeline::train {

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

}  // namespace pipeline::train
