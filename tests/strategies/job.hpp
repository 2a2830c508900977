#pragma once

#include <functional>
#include <vector>

#include "tests/strategies/ranks.hpp"

namespace pipeline::strategies {

// A training run that is the same on any number of ranks: what the core and a task would do, made up.
struct Job {
  std::vector<ParameterSpec> specs;
  plugins::Optimizer optimizer = adamw();
  uint64_t steps = 10;
  double learning_rate = 0.01;
  double clip_norm = 1.0;
  double inverse_scale = 1.0;
  // All micro-batches of a step.
  std::function<std::vector<MicroBatch>(uint64_t step)> batch;
  State start = {};  // values to begin with; empty: zeros

  // Every other parameter is of another loss, which has a turn in every other step.
  Job with_two_losses() const;
};

// What must not depend on the number of ranks.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<uint32_t> finite;
  State state;                     // of all ranks together
  std::vector<at::Tensor> values;  // bound to the task
  bool operator==(const Outcome& other) const;
};

// Runs the job under options.plugin on `world_size` ranks. Every rank must report the same and be bound to
// the same values, to the bit, or the calling test fails.
Outcome run_job(const Job& job, int world_size, const RunOptions& options);

// Puts the pieces of another rank into a state.
void append(State& into, const State& from);

// The difference of two outcomes where they differ most: relative, of losses, norms and values.
double distance(const Outcome& a, const Outcome& b);

// A job with everything that could make a difference: groups, odd sizes, a frozen, an unused, a sometimes
// used and a twice used parameter, a parameter that is larger than all others, ragged weights, one of them
// 0, and short steps as at the end of an epoch, which leave ranks without a micro-batch. Micro-batches lend
// or hand over in turn.
Job difficult_job(uint64_t micro_batches, const plugins::Optimizer& optimizer = adamw());

// The five micro-batches of a step, without gradients of parameters that are empty.
std::vector<MicroBatch> random_batch(const std::vector<ParameterSpec>& specs, uint64_t step);

// Rank 1 of two leaves before the third step: that step of rank 0 fails with rank 1's reason.
void expect_a_broken_group_fails_the_step(const std::vector<ParameterSpec>& specs,
                                          const std::function<RunOptions(const Rank&)>& options);

// Parameter 0 is trained and called w, parameter 2 is frozen.
void expect_gradients_that_do_not_fit_are_refused(StrategyRun& run);

}  // namespace pipeline::strategies
