#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "plugins/tasks/protein/clusters/clusters.hpp"

namespace pipeline::protein {

// Items of work divided among threads, with progress and cancellation.
class Work {
 public:
  Work(const files::Hooks& hooks, uint64_t total) : hooks_(hooks), total_(total) {}

  // Calls body(item, scratch) for the items 0 to count - 1 on any of the threads; `scratch` is what that
  // thread's make_scratch() gave. Waits for all. The first exception ends the work and is thrown on.
  template <typename Scratch, typename Body>
  void run(size_t count, Scratch make_scratch, Body body) {
    std::atomic<size_t> next = 0;
    run_threads([&] {
      auto scratch = make_scratch();
      for (size_t item; (item = next.fetch_add(1)) < count;) body(item, scratch);
    });
  }

  // Called within items, often: `units` of the total are done. Throws files::Cancelled if the work is to end.
  void advance(uint64_t units);

 private:
  void run_threads(const std::function<void()>& body);
  void fail(std::exception_ptr error);
  void report();

  const files::Hooks& hooks_;
  const uint64_t total_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
  std::chrono::steady_clock::time_point reported_{};  // by the calling thread; the first report comes at once

  std::mutex mutex_;
  std::condition_variable left_;
  size_t running_ = 0;  // threads beside the calling one
  std::exception_ptr error_;
};

}  // namespace pipeline::protein
