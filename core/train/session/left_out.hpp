// Weights that do not train, and that checkpoints leave out (checkpoint.frozen = "left_out"): they are read
// from the model's folder that they came from, which is known by the checksums of its files.
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// What checkpoints of the session's run leave out of the frozen parameters; nothing where they keep all.
// Reads the folder, on rank 0. Throws ConfigError where frozen weights come from elsewhere. All ranks
// together.
checkpoint::LeftOut what_is_left_out(Session& session, std::vector<std::string> frozen);

// Has the task import what `from` leaves out, for Task::initialize(). The folder is where the configuration
// of the session says, or where it was when the run began. Throws Error, PL_ERROR_CONFIG, where it is at
// neither place or its files are others. All ranks together.
void import_left_out(Session& session, const checkpoint::Checkpoint& from);

}  // namespace pipeline::train
