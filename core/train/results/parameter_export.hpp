#pragma once

#include <filesystem>
#include <string_view>

#include "core/checkpoint/checkpoint.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::train {

// What `export` writes for a task that has no form of its own, into a folder that is there: the parameters as
// model.safetensors, the task's extra state, if it has any, as extra_state.bin, and a README.md that says
// what they are. The same bytes whatever strategy and number of processes the checkpoint is from. Throws
// Error with path, cause and `remedy`. `values` reads a parameter's value, as Checkpoint::read() does.
void export_parameters(const checkpoint::Checkpoint& from, const plugins::PieceReader& values,
                       plugins::Task& task, const std::filesystem::path& folder, std::string_view remedy);

}  // namespace pipeline::train
