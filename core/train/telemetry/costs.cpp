#include "core/train/telemetry/costs.hpp"

#include <string>

#include <malloc.h>
#include <nlohmann/json.hpp>

#include "core/base/monotonic_clock.hpp"
#include "core/launch/devices.hpp"

namespace pipeline::train {
namespace {

uint64_t difference(uint64_t more, uint64_t less) { return more - std::min(more, less); }

}  // namespace

Costs::Costs(std::vector<plugins::Communicator*> groups)
    : groups_(std::move(groups)), last_(now_seconds()), began_(collectives()), seen_(began_) {}

plugins::FlightRecord::Times Costs::collectives() const {
  plugins::FlightRecord::Times all;
  for (const plugins::Communicator* group : groups_) {
    const plugins::FlightRecord::Times times = group->record().times();
    all.blocked += times.blocked;
    all.in_flight += times.in_flight;
  }
  return all;
}

void Costs::add_time(Cost cost) {
  const double now = now_seconds();
  const plugins::FlightRecord::Times times = collectives();
  const double blocked = times.blocked - seen_.blocked;
  seconds_[static_cast<size_t>(cost)] += now - last_ - blocked;
  seconds_[static_cast<size_t>(Cost::communication)] += blocked;
  last_ = now;
  seen_ = times;
}

nlohmann::json Costs::to_json() const {
  nlohmann::json seconds;
  for (size_t i = 0; i < seconds_.size(); ++i) seconds[std::string(kCostNames[i])] = seconds_[i];
  const double in_flight = seen_.in_flight - began_.in_flight, blocked = seen_.blocked - began_.blocked;
  return {{"seconds", seconds},
          {"overlapped_communication", std::max(0.0, in_flight - blocked)},
          {"host_memory", launch::peak_host_memory()},
          {"device_memory", device_memory_}};
}

StrategyMemory memory_of(const plugins::Strategy& strategy) {
  StrategyMemory memory;
  for (const auto& [what, bytes] : strategy.memory()) {
    uint64_t& kind = what == "parameters" || what == "master weights" ? memory.parameters
                     : what.starts_with("gradients")                  ? memory.gradients
                     : what.starts_with("optimizer")                  ? memory.optimizer
                                                                      : memory.buffers;
    kind += bytes;
  }
  return memory;
}

uint64_t checkpoint_bytes(const plugins::Strategy& strategy) {
  uint64_t bytes = 0;
  strategy.snapshot(PL_SNAPSHOT_VIEW | PL_SNAPSHOT_TRAINED).pieces([&](const pl_piece& piece) {
    bytes += piece.count * piece.dtype.bits / 8;
  });
  return bytes;
}

bool copies_checkpoints(const config::Config& config, uint64_t total_steps) {
  const config::CheckpointOptions& checkpoint = config.options().checkpoint;
  if (!checkpoint.background) return false;
  const auto within = [&](uint64_t every) { return every > 0 && (total_steps == 0 || every < total_steps); };
  return within(checkpoint.every) || checkpoint.every_seconds > 0 ||
         (within(config.options().evaluate.every) && checkpoint.keep_best);
}

uint64_t memory_in_use(pl_device device) {
  return device.type == PL_DEVICE_CUDA ? launch::cuda_memory().used : launch::host_memory();
}

uint64_t peak_memory(pl_device device) {
  // The allocator of a device keeps what it had, so what is in use now was the most.
  return device.type == PL_DEVICE_CUDA ? launch::cuda_memory().used : launch::peak_host_memory();
}

void give_back_unused(Session& session) {
  ::malloc_trim(0);
  const pl_runtime runtime = session.strategy_plugin().runtime_extension();
  if (session.run_info().device.type != PL_DEVICE_CPU && runtime.empty_cache)
    check(plugins::contain(session.strategy_plugin(), "empty_cache",
                           [&] { return runtime.empty_cache(&plugins::host_table(), &session.run_info()); }));
}

MemoryForecast::MemoryForecast(Session& session, bool copies_checkpoints, double largest)
    : device_(session.run_info().device),
      strategy_(memory_of(session.strategy())),
      // A copy of what is on a device is in host memory.
      checkpoint_(copies_checkpoints && device_.type == PL_DEVICE_CPU ? checkpoint_bytes(session.strategy())
                                                                      : 0),
      largest_(largest),
      before_(memory_in_use(device_)),
      earlier_peak_(peak_memory(device_)),
      peak_(before_) {}

uint64_t MemoryForecast::base() const { return difference(before_, strategy_.lasting()); }

uint64_t MemoryForecast::activations() const {
  return difference(difference(peak_, before_), strategy_.in_a_step());
}

uint64_t MemoryForecast::peak() const {
  // What came before these steps, such as preparing the data, took more: of them no more is known.
  if (peak_ <= earlier_peak_) return std::max(earlier_peak_, before_ + strategy_.in_a_step() + checkpoint_);
  const double largest = static_cast<double>(activations()) * largest_;
  return before_ + strategy_.in_a_step() + static_cast<uint64_t>(largest) + checkpoint_;
}

}  // namespace pipeline::train
