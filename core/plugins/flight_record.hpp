#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pipeline.h"

namespace pipeline::plugins {

// A collective that this rank called.
struct Flight {
  uint64_t sequence = 0;       // 1-based, the same on all ranks
  const char* operation = "";  // "all_reduce"
  uint64_t count = 0;          // elements of the first buffer
  pl_dtype dtype{};
  std::chrono::steady_clock::time_point started{};
  std::chrono::steady_clock::time_point finished{};  // end of its wait; `started` while in progress
  bool done = false;
  bool failed = false;
  std::optional<std::chrono::steady_clock::time_point> waited{};  // when this rank began to block on it
};

// "all_reduce #12 (4096 x float32)"
std::string describe(const Flight& flight);

// The last collectives of one group, for when a rank hangs or fails. [any-thread]
class FlightRecord {
 public:
  static constexpr size_t kCapacity = 64;

  void begin(const char* operation, uint64_t count, pl_dtype dtype, const pl_work* work);
  void wait(const pl_work* work);
  void end(const pl_work* work, bool failed);
  std::optional<Flight> find(const pl_work* work) const;  // nullopt: not in progress, or long ago

  std::vector<Flight> recent() const;  // oldest first

 private:
  struct Entry {
    Flight flight;
    const pl_work* work;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // a ring: the flight with sequence s is at (s - 1) % kCapacity
  uint64_t next_ = 1;
};

}  // namespace pipeline::plugins
