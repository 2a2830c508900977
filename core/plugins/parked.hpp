#pragma once

#include <exception>
#include <utility>

namespace pipeline::plugins {

// What the host's functions throw while a slot runs: it cannot pass through the plugin, so it waits here
// until the slot returns. Each call of a slot has one, on the stack of the calling thread, so no other call
// sees it. Calls nest where a callback calls another plugin.
class Parked {
 public:
  Parked() : outer_(std::exchange(innermost_, this)) {}
  ~Parked() { innermost_ = outer_; }
  Parked(const Parked&) = delete;
  Parked& operator=(const Parked&) = delete;

  // The call that this thread is in; nullptr in a thread that the plugin started.
  static Parked* innermost() { return innermost_; }

  // Keeps the exception being handled; the first one counts.
  void keep() noexcept {
    if (!exception_) exception_ = std::current_exception();
  }
  std::exception_ptr take() noexcept { return std::exchange(exception_, nullptr); }

 private:
  static inline thread_local Parked* innermost_ = nullptr;

  Parked* outer_;
  std::exception_ptr exception_;
};

}  // namespace pipeline::plugins
