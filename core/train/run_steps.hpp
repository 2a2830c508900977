// The optimizer steps of a run: what their micro-batches are, forward and backward, the update.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/train/data/prefetcher.hpp"
#include "core/train/data/sampler.hpp"
#include "core/train/global_outputs.hpp"
#include "core/train/run_activity.hpp"
#include "core/train/run_forecast.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/step_exchange.hpp"
#include "core/train/step_reports.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {

// All ranks make the same calls. Used from one thread.
class RunSteps {
 public:
  // `state`: of the run, which take() goes on with. Each step's report goes to `reports`.
  RunSteps(Session& session, TrainState& state, StepReports& reports, RunActivity& activity);

  uint64_t total() const { return total_; }  // 0: until train.max_seconds
  uint64_t per_epoch() const { return sampler_.steps_per_epoch(); }
  const Schedule& schedule() const { return schedule_; }
  RunForecast& forecast() { return forecast_; }

  // Begins to load the data of the steps from state.step on.
  void start_loading();
  // Takes the step after state.step, which is then one more.
  void take();
  // The update of 0-based `step` was skipped, as its gradient was not finite.
  void report_skipped(uint64_t step);

 private:
  std::vector<plugins::Batch> next_batches();
  StepFacts exchange_facts(const std::vector<plugins::Batch>& batches);
  void train(std::vector<plugins::Batch>& batches, const StepFacts& facts);
  std::pair<plugins::Batch, MicroBatchPlace> first_of_step();
  std::optional<GlobalOutputs> global_outputs(std::span<const plugins::Batch> batches,
                                              const StepFacts& facts);

  Session& session_;
  TrainState& state_;
  StepReports& reports_;
  RunActivity& activity_;
  Sampler sampler_;
  const std::vector<std::optional<uint64_t>>
      micro_batches_;  // of this rank in each step; nullopt: an empty one
  const uint64_t total_;
  const Schedule schedule_;
  RunForecast forecast_;
  std::unique_ptr<Prefetcher> batches_;
  bool has_gone_through_units_ = false;  // this process, in any micro-batch
  bool has_warned_of_no_weight_ = false;
};

}  // namespace pipeline::train
