#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pipeline::structures {

// Runs work(0) ... work(count - 1) on some threads and gives the results to `take` in that order, on the
// calling thread. Each worker is at most `ahead` results ahead of it, so that memory stays bounded. `idle` is
// called at least every 50 ms. What any of the three throws is thrown here, after the workers have ended what
// they were at.
template <class Result>
void run_in_order(size_t count, unsigned threads, const std::function<Result(size_t)>& work,
                  const std::function<void(size_t, Result&&)>& take, const std::function<void()>& idle,
                  size_t ahead = 4) {
  const size_t workers = std::min<size_t>(std::max(threads, 1u), count), window = workers * ahead;
  struct Slot {
    Result result{};
    std::exception_ptr failure;
    bool done = false;
  };
  std::vector<Slot> slots(window);  // of result i: slots[i % window]
  std::mutex mutex;
  std::condition_variable finished, room;
  size_t next = 0, taken = 0;
  bool stopped = false;

  const auto run = [&] {
    std::unique_lock lock(mutex);
    while (true) {
      room.wait(lock, [&] { return stopped || next == count || next < taken + window; });
      if (stopped || next == count) return;
      const size_t i = next++;
      lock.unlock();
      Slot slot;
      try {
        slot.result = work(i);
      } catch (...) {
        slot.failure = std::current_exception();
      }
      slot.done = true;
      lock.lock();
      slots[i % window] = std::move(slot);
      finished.notify_one();
    }
  };
  struct Stop {
    std::mutex& mutex;
    bool& stopped;
    std::condition_variable& room;
    ~Stop() {
      {
        const std::lock_guard lock(mutex);
        stopped = true;
      }
      room.notify_all();
    }
  };

  std::vector<std::jthread> pool;  // joined last
  const Stop stop{mutex, stopped, room};
  for (size_t i = 0; i < workers; ++i) pool.emplace_back(run);
  for (size_t i = 0; i < count; ++i) {
    Slot slot;
    while (!slot.done) {
      idle();
      std::unique_lock lock(mutex);
      Slot& ready = slots[i % window];
      finished.wait_for(lock, std::chrono::milliseconds(50), [&] { return ready.done; });
      if (!ready.done) continue;
      slot = std::exchange(ready, Slot());
      ++taken;
    }
    room.notify_all();
    if (slot.failure) std::rethrow_exception(slot.failure);
    take(i, std::move(slot.result));
  }
}

}  // namespace pipeline::structures
