#include "core/plugins/flight_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/dtype.hpp"

namespace pipeline::plugins {

using Clock = std::chrono::steady_clock;

std::string describe(const Flight& flight) {
  if (flight.count == 0) return fmt::format("{} #{}", flight.operation, flight.sequence);
  return fmt::format("{} #{} ({} x {})", flight.operation, flight.sequence, flight.count,
                     dtype_name(flight.dtype));
}

void FlightRecord::begin(const char* operation, uint64_t count, pl_dtype dtype, const pl_work* work) {
  std::lock_guard lock(mutex_);
  Entry entry{{next_++, operation, count, dtype, Clock::now(), {}, false, false, {}}, work};
  entry.flight.finished = entry.flight.started;
  if (entries_.size() < kCapacity)
    entries_.push_back(entry);
  else
    entries_[(entry.flight.sequence - 1) % kCapacity] = entry;
}

void FlightRecord::wait(const pl_work* work) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.work == work && !entry.flight.done) entry.flight.waited = Clock::now();
}

void FlightRecord::end(const pl_work* work, bool failed) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.work != work || entry.flight.done) continue;
    entry.flight.done = true;
    entry.flight.failed = failed;
    entry.flight.finished = Clock::now();
  }
}

std::optional<Flight> FlightRecord::find(const pl_work* work) const {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.work == work && !entry.flight.done) return entry.flight;
  return std::nullopt;
}

std::vector<Flight> FlightRecord::recent() const {
  std::lock_guard lock(mutex_);
  std::vector<Flight> flights;
  for (const Entry& entry : entries_) flights.push_back(entry.flight);
  std::sort(flights.begin(), flights.end(),
            [](const Flight& a, const Flight& b) { return a.sequence < b.sequence; });
  return flights;
}

}  // namespace pipeline::plugins
