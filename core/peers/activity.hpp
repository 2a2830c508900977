#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "core/peers/messages.hpp"

namespace pipeline::peers {

// What this rank is doing. [any-thread]
class Activity {
 public:
  void at(std::string_view phase, uint64_t step);
  void moved() { moves_.fetch_add(1, std::memory_order_relaxed); }

  State now() const;  // without the collective

 private:
  std::atomic<uint64_t> moves_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::string phase_ = State{}.phase;
  uint64_t step_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace pipeline::peers
