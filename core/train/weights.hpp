// Weights at the start of a run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/train/session.hpp"

namespace pipeline::train {

// Fills the strategy with first values: from a checkpoint or run folder, from a folder of another tool (through the task), or, where
// `from` is empty, with the task's own. Optimizer state starts at zero. Returns what was done, for people. Strict: one error lists all
// missing, unexpected and mis-shaped tensors.
std::string load_weights(Session& session, const std::string& from);

// Only the values of a checkpoint, for evaluation, prediction and export.
void load_values(Session& session, const checkpoint::Checkpoint& checkpoint);

// As checkpoint::open_any; what is passed over in the folder is logged.
checkpoint::Checkpoint open_checkpoint(const std::string& path, checkpoint::Which which, observe::Log& log);
void warn_of_rejected(observe::Log& log, const std::string& folder, std::span<const checkpoint::Rejected> rejected);

// The parameters of a task as a checkpoint must have them.
std::vector<checkpoint::Wanted> wanted_values(plugins::Task& task);

}  // namespace pipeline::train
