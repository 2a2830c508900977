// What a verb or a stage without training works with: the weights that it names, looked at before anything is
// made for the work, and the options that a finished one was made with.
#pragma once

#include <span>
#include <string>
#include <string_view>
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

// The options that are not what they were when a stage without training was made, with both values. Those
// that its result does not depend on do not count: what training alone reads, such as [optimizer], what is
// observed, where the run's folder is, and how a path in it begins. `stored_toml`: what the stage was made
// with; `now`, `plugins`: what it would be made with.
std::vector<std::string> other_options(std::string_view stored_toml, const config::Config& now,
                                       std::span<const config::PluginConfig* const> plugins);

}  // namespace pipeline::train
