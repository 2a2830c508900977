// What a rank's time goes into, and how much memory it took: for summary.json, and so for reports.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/plugins/backend.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// data: waiting for the loader. ranks: telling each other about a step, and so waiting for the slowest.
// compute: forward and backward passes. optimizer: the update. communication: blocked in collectives,
// wherever that was. device: waiting for it; the host runs ahead of a CUDA device, and most of its time is
// there.
enum class Cost { data, ranks, compute, optimizer, communication, device, evaluation, checkpoint };
inline constexpr std::array<std::string_view, 8> kCostNames{
    "data", "ranks", "compute", "optimizer", "communication", "device", "evaluation", "checkpoint"};

// The costs of this process, from here on. Used from one thread.
class Costs {
 public:
  // `groups`: of ranks that train; none: this process alone.
  explicit Costs(std::vector<plugins::Communicator*> groups);

  // The time since the last call went into `cost`, but for what was spent in collectives.
  void add_time(Cost cost);
  void note_device_memory(uint64_t bytes) { device_memory_ = std::max(device_memory_, bytes); }

  uint64_t device_memory() const { return device_memory_; }  // bytes, at most so far

  // {"seconds": {"data", ...}, "overlapped_communication": seconds, at most; "host_memory", "device_memory":
  // bytes, at most so far}.
  nlohmann::json to_json() const;

 private:
  plugins::FlightRecord::Times collectives() const;

  std::vector<plugins::Communicator*> groups_;
  double last_;
  plugins::FlightRecord::Times began_, seen_;  // of the group, at the start and in the last add_time()
  std::array<double, kCostNames.size()> seconds_{};
  uint64_t device_memory_ = 0;
};

// Bytes that a strategy accounts for, by what they are for.
struct StrategyMemory {
  uint64_t parameters = 0;  // weights, and master weights where the parameters are narrower
  uint64_t gradients = 0;
  uint64_t optimizer = 0;
  uint64_t buffers = 0;  // for communication, and whatever else it names

  uint64_t lasting() const { return parameters + optimizer; }  // always there
  uint64_t in_a_step() const { return gradients + buffers; }   // while a step is computed
};

StrategyMemory memory_of(const plugins::Strategy& strategy);

// Bytes of this rank's part of a checkpoint, which a background writer works on a copy of.
uint64_t checkpoint_bytes(const plugins::Strategy& strategy);

// Whether a run of so many steps (0: not known) copies its state for a background writer while it trains.
bool copies_checkpoints(const config::Config& config, uint64_t total_steps);

// Bytes in use now, and at the peak so far. On a CUDA device by all processes, and what the allocator keeps.
uint64_t memory_in_use(pl_device device);
uint64_t peak_memory(pl_device device);

// What this process and its device's allocator keep for later goes back: what comes finds large pieces, and
// what is in use can be told.
void give_back_unused(Session& session);

// Predicts a rank's peak from the micro-batches of a few steps: by what these took beyond what the strategy
// accounts for, its activations are known. Used from one thread; the session is bound.
class MemoryForecast {
 public:
  // To be made before the first micro-batch. `copies_checkpoints`: they are written in the background.
  // `largest`: the largest micro-batch of the run, in terms of the largest one of these steps.
  MemoryForecast(Session& session, bool copies_checkpoints, double largest = 1);
  // To be called after each micro-batch.
  void micro_batch() { peak_ = std::max(peak_, peak_memory(device_)); }

  // Process, libraries and data, or on a device its context: all that is in use between steps but for the
  // strategy's.
  uint64_t base() const;
  uint64_t activations() const;  // of the measured steps
  uint64_t peak() const;         // of the run

 private:
  pl_device device_;
  StrategyMemory strategy_;
  uint64_t checkpoint_;
  double largest_;
  uint64_t before_, earlier_peak_, peak_;
};

}  // namespace pipeline::train
