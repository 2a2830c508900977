// What a rank knows about itself and about failures.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/peers/messages.hpp"
#include "core/peers/peers.hpp"

namespace pipeline::peers {

// What this rank is doing. [any-thread]
class Activity {
 public:
  void at(std::string_view phase, uint64_t step);
  void moved() { moves_.fetch_add(1, std::memory_order_relaxed); }

  State now() const;  // without the collective

 private:
  std::atomic<uint64_t> moves_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  std::string phase_ = State{}.phase;
  uint64_t step_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

// The state that every call of a rank depends on; Client adds communication with the others.
class Member {
 public:
  std::optional<Failure> failure(std::chrono::duration<double> wait);
  Activity activity;

 protected:
  explicit Member(Options options) : options_(std::move(options)) {}
  // Only the first call counts. [any-thread]
  void settle(Verdict verdict);
  // What this rank is doing, and the collective that it waits in.
  State state() const;
  // Throws if an exchange cannot be made, with the reason. Call it with the mutex held.
  void check_open() const;
  static Error cancelled_error();
  // Calls on_failure, once, if there is a failure. On the background thread.
  void tell_failure();

  const Options options_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<Verdict> verdict_;
  bool left_ = false;
  bool ended_ = false;  // rank 0 has said goodbye

 private:
  bool told_ = false;  // the background thread's
};

}  // namespace pipeline::peers
