// What the threads behind an exchange share: how they are started, woken, and how they count time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/socket.hpp"
#include "core/base/thread.hpp"

namespace pipeline::peers {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Wakes a thread that waits in epoll. [any-thread]
class WakeFd {
 public:
  WakeFd();
  int fd() const { return event_.fd(); }
  void wake() noexcept;
  void clear() noexcept;

 private:
  Descriptor event_;
};

// Time in which this process could run. One that was stopped with everything else (Ctrl-Z, a suspended
// machine) and goes on must not take the silence of that time for the others'.
class AwakeClock {
 public:
  explicit AwakeClock(Seconds period) : period_(period) {}
  // Whether a period has passed since it last said so.
  bool tick();
  Seconds now() const { return awake_; }
  // Until the next tick, for epoll.
  int milliseconds_left() const;

 private:
  const Seconds period_;
  Clock::time_point last_ = Clock::now();
  Seconds awake_{0};
};

// A mutex for which one can wait until a time. (std::timed_mutex is not known to the thread sanitizer of our
// oldest compiler.)
class TimedMutex {
 public:
  void lock();
  bool try_lock();
  bool try_lock_until(Clock::time_point deadline);
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

// How often who waits for others asks whether to go on.
constexpr std::chrono::milliseconds kLook{100};

// The time in `patience`, which may be longer than the clock's arithmetic can bear.
Clock::time_point deadline_after(Seconds patience);

// How often ranks and server give a sign of life: once a second, several times within a short `stall`.
Seconds heartbeat_period(Seconds stall);

}  // namespace pipeline::peers
