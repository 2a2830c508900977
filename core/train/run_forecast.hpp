// What the first steps of a run predict of this rank's peak memory, and how right that was.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/train/session/session.hpp"
#include "core/train/telemetry/memory.hpp"

namespace pipeline::train {

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

}  // namespace pipeline::train
