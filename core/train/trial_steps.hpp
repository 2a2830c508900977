// Real training steps outside of a run: nothing is recorded, evaluated or saved.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/train/global_outputs.hpp"
#include "core/train/session/session.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

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
  uint64_t step_ = 0;
};

}  // namespace pipeline::train
