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
#include "core/train/run_activity.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/session/session.hpp"
#include "core/train/step_reports.hpp"
#include "core/train/telemetry/costs.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {

// What the first steps of a run predict of this rank's peak memory, and how right that was.

// Used from one thread.
class RunForecast {
 public:
  // `micro_batches`: this rank's in each step. `total_steps`: 0: not known.
  RunForecast(Session& session, const std::vector<std::optional<uint64_t>>& micro_batches,
              uint64_t total_steps);

  // Around each step, `step` of them are done; they do nothing once the forecast is made.
  void before_step(uint64_t step);
  void after_micro_batch();
  void after_step();
  // Something else takes memory from here on: the forecast is that of the steps so far, if there were any.
  void stop() { is_made_ = memory_.has_value(); }

  // The predicted peak in bytes; nullopt: there was no step.
  std::optional<uint64_t> peak() const;
  // Logs the forecast beside what was measured. `device_memory`: the largest use seen between two steps.
  void compare(uint64_t device_memory) const;

 private:
  double largest_to_come(uint64_t step) const;

  Session& session_;
  std::vector<uint64_t> micro_batches_;  // but for empty ones
  const uint64_t total_steps_;
  std::optional<MemoryForecast> memory_;  // from the first step on
  uint64_t steps_ = 0;                    // that were measured
  bool is_made_ = false;                  // no more are
};

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
  std::optional<uint64_t>
      last_idle_losses_;  // of the last micro-batch in which this process went through units
  bool has_warned_of_no_weight_ = false;
};

}  // namespace pipeline::train
