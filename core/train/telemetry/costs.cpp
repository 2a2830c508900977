#include "core/train/telemetry/costs.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "core/base/monotonic_clock.hpp"
#include "core/launch/devices.hpp"

namespace pipeline::train {

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

}  // namespace pipeline::train
