// What every loop that trains does alike: a run's, and those of `plan` and `find-lr`.
#pragma once

#include <cstdint>

#include "core/train/session/session.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// The place of a micro-batch in training; dropout depends on this alone.
struct MicroBatchPlace {
  uint64_t step = 0, index = 0;  // in the step's global batch
};

uint64_t dropout_seed(const Session& session, MicroBatchPlace place);

class GlobalOutputs;

// Forward and backward: the strategy gets the gradients and the loss of `batch`, whose memory then goes,
// before the next one needs some. `weight`: of the step's global batch. `outputs`: of all its samples, if the
// task is to have them.
void train_micro_batch(Session& session, plugins::Batch& batch, MicroBatchPlace place, double weight,
                       const LossScale& loss_scale, const GlobalOutputs* outputs);

// For a process whose first micro-batch is empty, under a strategy with unit hooks: they are called as for
// `batch`, which another rank trains, and nothing else comes of it. So the strategy knows the way that the
// others go.
void go_through_units(Session& session, const plugins::Batch& batch, MicroBatchPlace place,
                      const GlobalOutputs* outputs);

// The arguments of the update at the end of a step.
pl_step_args step_args(const Session& session, double learning_rate, const LossScale& loss_scale);

}  // namespace pipeline::train
