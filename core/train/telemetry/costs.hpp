// What a rank's time goes into, and how much memory it took: for summary.json, and so for reports.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/plugins/backend.hpp"

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

}  // namespace pipeline::train
