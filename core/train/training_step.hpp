// What every loop that trains does alike: a run's, and those of `plan` and `find-lr`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/train/session/session.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// The place of a micro-batch in training; dropout depends on this alone.
struct MicroBatchPlace {
  uint64_t step = 0, index = 0;  // in the step's global batch
};

uint64_t dropout_seed(const Session& session, MicroBatchPlace place);

// Which rows of the step's (rows, K) the micro-batches have: m has [begin(m), begin(m + 1)).
class RowsOfStep {
 public:
  // `samples`: of each micro-batch of the global batch; those that it lacks have none.
  RowsOfStep(std::span<const uint64_t> samples, uint64_t micro_batches);

  uint64_t begin(uint64_t micro_batch) const { return begins_[micro_batch]; }
  uint64_t total() const { return begins_.back(); }

  // The collectives that bring the rows together: for each, the rows of each rank, one rank's after the
  // other's. Where each rank has a block of micro-batches one will do; where they take turns, one a turn.
  using Turn = std::vector<std::pair<uint64_t, uint64_t>>;
  std::vector<Turn> turns(uint64_t world_size, uint32_t micro_batch_order) const;

 private:
  std::vector<uint64_t> begins_;
};

// What a model makes of all samples of a step, on every rank, for tasks whose loss of a sample depends on
// them (pl.global-outputs/1): computed in a forward pass of its own before the step is trained, and gathered
// in the order of the samples. So the loss is that of the global batch, however it is cut and distributed.
class GlobalOutputs {
 public:
  // Whether a step needs the outputs; `micro_batches`: those of all ranks.
  static bool are_wanted(Session& session, uint64_t micro_batches);

  // `batches` are this rank's, empty ones included, and `places` say which they are. `any_batch` loads one of
  // the step that is not empty, for a rank that has none, and says where it is. [collective]
  GlobalOutputs(Session& session, std::span<const plugins::Batch> batches,
                std::span<const MicroBatchPlace> places, const RowsOfStep& rows,
                const std::function<std::pair<plugins::Batch, MicroBatchPlace>()>& any_batch);

  // All outputs, and where in them a micro-batch begins: what its training needs.
  const pl_tensor& all() const { return all_; }
  uint64_t first_row(uint64_t micro_batch) const { return rows_.begin(micro_batch); }

 private:
  void compute(const plugins::Batch& batch, MicroBatchPlace place);
  void gather();

  Session& session_;
  const RowsOfStep rows_;
  pl_tensor all_{};
};

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

// The arguments of the update at the end of a step, which counts from 0.
pl_step_args step_args(Session& session, uint64_t step, double learning_rate, const LossScale& loss_scale);

// Real training steps outside of a run: nothing is recorded, evaluated or saved.
struct TrialStep {
  double loss = 0;  // mean over the step's samples
  bool finite = true;
  double seconds = 0;       // of the whole step, without loading its data
  double pass_seconds = 0;  // of forward and backward passes alone
  std::optional<double> flops;
  uint64_t loaded_bytes = 0;  // by which the process grew when the step's batches were loaded
};

// The session is bound. Where several processes train, all take the same steps, and weight, flops, times are
// those of this one. Used from one thread.
class TrialSteps {
 public:
  explicit TrialSteps(Session& session);

  // One step with these samples of an epoch, by micro-batch, of which none may be empty. `after_micro_batch`
  // may be empty.
  TrialStep run(std::span<const std::vector<uint64_t>> micro_batches, uint64_t epoch, double learning_rate,
                const std::function<void()>& after_micro_batch = {});

 private:
  std::vector<MicroBatchPlace> places(uint64_t each) const;
  std::optional<GlobalOutputs> global_outputs(std::span<const plugins::Batch> batches,
                                              std::span<const MicroBatchPlace> places);

  Session& session_;
  LossScale loss_scale_;
  uint64_t step_;  // from the one that takes the most memory
};

}  // namespace pipeline::train
