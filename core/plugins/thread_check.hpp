#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/error.hpp"

// Checks the ABI's thread tags at every call if PIPELINE_THREAD_CHECKS is defined; otherwise costs nothing.
namespace pipeline::plugins {

#ifdef PIPELINE_THREAD_CHECKS
inline constexpr bool kThreadChecks = true;
#else
inline constexpr bool kThreadChecks = false;
#endif

// [main]
inline void check_main_thread(std::thread::id main, std::string_view who, std::string_view slot) {
  if (!kThreadChecks || std::this_thread::get_id() == main) return;
  throw Error(
      std::string(who) + ": " + std::string(slot) +
      " is tagged [main] and was called from a thread other than the one that runs the training loop");
}

// [serialized], and the part of [collective] that one rank can check: one call at a time per object. A
// member of that object; a Scope spans one call.
class SerialCheck {
 public:
  class Scope {
   public:
    Scope(SerialCheck& check, std::string_view who, std::string_view slot) : check_(check) {
      if (!kThreadChecks || !check_.busy_.exchange(true, std::memory_order_acquire)) return;
      throw Error(std::string(who) + ": " + std::string(slot) +
                  " is tagged [serialized] and was called while another call on the same object was running");
    }
    ~Scope() {
      if (kThreadChecks) check_.busy_.store(false, std::memory_order_release);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SerialCheck& check_;
  };

 private:
  std::atomic<bool> busy_{false};
};

}  // namespace pipeline::plugins
