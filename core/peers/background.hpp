// What the threads behind an exchange share: how they are started and woken, and how they measure time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

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

// Counts only the time in which this process could run. A process that was stopped along with the others
// (Ctrl-Z, a suspended machine) and resumes must not mistake that pause for their silence.
class AwakeClock {
 public:
  explicit AwakeClock(Seconds period) : period_(period) {}
  // True if a period has passed since it last returned true.
  bool tick();
  Seconds now() const { return awake_; }
  // Milliseconds until the next tick, for epoll.
  int milliseconds_left() const;

 private:
  const Seconds period_;
  Clock::time_point last_ = Clock::now();
  Seconds awake_{0};
};

// A mutex with a timed lock. (The thread sanitizer of our oldest compiler does not know std::timed_mutex.)
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

// How often a thread that waits for others checks whether to continue.
constexpr std::chrono::milliseconds kLook{100};

// The time `patience` from now. `patience` may exceed the clock's range.
Clock::time_point deadline_after(Seconds patience);

std::string seconds_text(Seconds time);  // "42 s", "0.5 s"

// How often ranks and server send a heartbeat: once a second, or several times within a short `stall`.
Seconds heartbeat_period(Seconds stall);

// Tells what a rank waits for while it does, on a thread of its own: looking up a name or connecting may take
// longer than anybody should be left in the dark.
class Waiting {
 public:
  // `tell`: see PeersOptions::on_waiting; empty: nobody is told.
  Waiting(std::function<void(const std::string& what)> tell, Seconds notice);
  void is_for(std::string what);  // [any-thread]

 private:
  void look();

  const std::function<void(const std::string&)> tell_;
  std::mutex mutex_;  // guards what_
  std::string what_, told_;
  int notices_ = 0;
  std::optional<Ticker> ticker_;
};

}  // namespace pipeline::peers
