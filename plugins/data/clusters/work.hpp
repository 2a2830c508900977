#pragma once

#include <atomic>
#include <chrono>

#include "plugins/data/files/error.hpp"
#include "plugins/data/structures/ordered_workers.hpp"

namespace pipeline::clusters {

// Items of work divided among threads, with progress and cancellation.
class Work {
 public:
  Work(const files::Hooks& hooks, uint64_t total) : hooks_(hooks), total_(total) {}

  // Calls body(item) for the items 0 to count - 1, each on one of the threads. Waits for all. The first
  // exception ends the work and is thrown on.
  template <typename Body>
  void run(size_t count, const Body& body) {
    constexpr size_t kAhead = 1024;  // nobody waits for an item that takes much longer than others
    const auto work = [&](size_t item) { return body(item), true; };
    structures::run_in_order<bool>(
        count, hooks_.threads, work, [](size_t, bool&&) {}, [this] { look(); }, kAhead);
  }

  // Called within items, often: `units` of the total are done. Throws files::Cancelled if the work is to end.
  void advance(uint64_t units) {
    done_ += units;
    if (stop_) throw files::Cancelled();
  }

 private:
  void look() {
    constexpr std::chrono::milliseconds kEvery(100);
    if (std::chrono::steady_clock::now() - looked_ < kEvery) return;
    looked_ = std::chrono::steady_clock::now();
    try {
      hooks_.throw_if_cancelled();
      hooks_.report(done_, total_);
    } catch (...) {
      stop_ = true;  // ends the items that are at work
      throw;
    }
  }

  const files::Hooks& hooks_;
  const uint64_t total_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
  std::chrono::steady_clock::time_point looked_{};  // the first look comes at once
};

}  // namespace pipeline::clusters
