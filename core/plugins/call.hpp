#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include <unistd.h>

#include "core/base/error.hpp"
#include "core/base/program.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"

namespace pipeline::plugins {

// The ABI's thread tags are checked at every call if PIPELINE_THREAD_CHECKS is defined; otherwise this costs
// nothing.
#ifdef PIPELINE_THREAD_CHECKS
inline constexpr bool kThreadChecks = true;
#else
inline constexpr bool kThreadChecks = false;
#endif

// Checks the tag [main].
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

// Holds an exception that a host function throws while a slot runs. It cannot pass through the plugin, so
// it waits here until the slot returns. Each slot call has one, on the stack of the calling thread, so no
// other call sees it. Calls nest when a callback calls another plugin.
class PendingException {
 public:
  PendingException() : outer_(std::exchange(innermost_, this)) {}
  ~PendingException() { innermost_ = outer_; }
  PendingException(const PendingException&) = delete;
  PendingException& operator=(const PendingException&) = delete;

  // The innermost call on this thread; nullptr on a thread that the plugin started.
  static PendingException* innermost() { return innermost_; }

  // Stores the exception being handled; only the first is kept.
  void keep() noexcept {
    if (!exception_) exception_ = std::current_exception();
  }
  std::exception_ptr take() noexcept { return std::exchange(exception_, nullptr); }

 private:
  static inline thread_local PendingException* innermost_ = nullptr;

  PendingException* outer_;
  std::exception_ptr exception_;
};

// Throws the Error for an exception that escaped from a slot.
[[noreturn]] void raise_escaped(const Plugin& plugin, const char* slot, const char* what);

// Throws unless all `flags`, which a plugin returned, are in `known` or may be ignored. what: "task x:
// batch_info".
void require_known_flags(std::string_view what, std::uint32_t flags, std::uint32_t known);

// Calls a function of a plugin. An exception that escapes from it, which the ABI forbids, is thrown as an
// Error that names plugin and slot.
template <class Function>
auto contain(const Plugin& plugin, const char* slot, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::exception& e) {
    raise_escaped(plugin, slot, e.what());
  } catch (...) {
    raise_escaped(plugin, slot, "not a std::exception");
  }
}

// A call of a task's, whose code may do to the process what it likes: standard streams that it has closed are
// opened again, and a process that it has forked ends here, as the run is its parent's.
class UserCode {
 public:
  UserCode(const Plugin& plugin, const char* slot)
      : plugin_(plugin), slot_(slot), process_(plugin.kind() == Kind::kTask ? ::getpid() : 0) {}
  ~UserCode() {
    if (process_ == 0) return;
    if (::getpid() != process_) end_child(plugin_, slot_);
    StandardStreams::restore();
  }
  UserCode(const UserCode&) = delete;
  UserCode& operator=(const UserCode&) = delete;

 private:
  [[noreturn]] static void end_child(const Plugin& plugin, const char* slot);

  const Plugin& plugin_;
  const char* slot_;
  const pid_t process_;  // 0: the plugin is of another kind
};

// Calls the slots of one plugin object.
class Caller {
 public:
  Caller(const Plugin& plugin, const pl_context& context) : plugin_(plugin), context_(context) {}

  const Plugin& plugin() const { return plugin_; }
  const pl_context& context() const { return context_; }

  // Calls a slot from any thread. If it returns a pl_error*, throws it as Error; returns anything else.
  // Rethrows unchanged an exception from a callback that the slot called.
  template <class Function>
  auto any(const char* slot, Function&& function) const {
    PendingException pending;
    const UserCode user_code(plugin_, slot);
    auto result = contain(plugin_, slot, std::forward<Function>(function));
    if constexpr (std::is_same_v<decltype(result), pl_error*>) {
      finish(pending.take(), result);
    } else {
      finish(pending.take(), nullptr);
      return result;
    }
  }

  // Calls a slot tagged [main], as any() does.
  template <class Function>
  auto main(const char* slot, Function&& function) const {
    check_main_thread(context_.main_thread(), plugin_.label(), slot);
    return any(slot, std::forward<Function>(function));
  }

  // Calls slots that cannot report failure, and destructors: logs what went wrong and carries on. Does not
  // log the same slot twice in a row: the next batch would only repeat it.
  template <class Function>
  void cannot_fail(const char* slot, Function&& function) const noexcept {
    try {
      any(slot, [&]() -> pl_error* {
        std::forward<Function>(function)();
        return nullptr;
      });
    } catch (...) {
      if (said_.exchange(slot) != slot) say_exception(&context_);
    }
  }

 private:
  // Throws what a callback threw, or else the slot's error, prefixed with the plugin's name; a
  // configuration error already names its origin.
  void finish(std::exception_ptr thrown, pl_error* error) const;

  const Plugin& plugin_;
  const pl_context& context_;
  mutable std::atomic<const char*> said_{nullptr};  // the slot last logged; a literal
};

// For functions that a plugin calls back: stores what they throw in this thread's innermost call, and
// returns it to the plugin as an error.
template <class Function>
pl_error* call_back(Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return nullptr;
  } catch (...) {
    if (PendingException* call = PendingException::innermost()) call->keep();
    return current_exception_as_error();
  }
}

}  // namespace pipeline::plugins
