// The extra state of a task in checkpoints.
#pragma once

#include "core/checkpoint/checkpoint.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::train {

// `pieces` and before them the task's extra state, if it has any: a tensor of bytes, of the kind
// "extra_state" and with the task's name as that of the parameter.
checkpoint::PieceSource with_extra_state(const plugins::Task& task, checkpoint::PieceSource pieces);

// Whether the extra state of `task` is the same in both.
bool same_extra_state(const plugins::Task& task, const checkpoint::Checkpoint& a,
                      const checkpoint::Checkpoint& b);

// Hands the checkpoint's extra state to a task that has just been created. One that another task wrote is not
// for it.
void give_extra_state(plugins::Task& task, const checkpoint::Checkpoint& from);

}  // namespace pipeline::train
