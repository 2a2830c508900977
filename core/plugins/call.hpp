#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/error.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/thread_check.hpp"

namespace pipeline::plugins {

// What the host's functions throw while a slot runs: it cannot pass through the plugin, so it waits here
// until the slot returns. Each call of a slot has one, on the stack of the calling thread, so no other call
// sees it. Calls nest where a callback calls another plugin.
class PendingException {
 public:
  PendingException() : outer_(std::exchange(innermost_, this)) {}
  ~PendingException() { innermost_ = outer_; }
  PendingException(const PendingException&) = delete;
  PendingException& operator=(const PendingException&) = delete;

  // The call that this thread is in; nullptr in a thread that the plugin started.
  static PendingException* innermost() { return innermost_; }

  // Keeps the exception being handled; the first one counts.
  void keep() noexcept {
    if (!exception_) exception_ = std::current_exception();
  }
  std::exception_ptr take() noexcept { return std::exchange(exception_, nullptr); }

 private:
  static inline thread_local PendingException* innermost_ = nullptr;

  PendingException* outer_;
  std::exception_ptr exception_;
};

// Throws: an exception came out of a slot.
[[noreturn]] void raise_escaped(const Plugin& plugin, const char* slot, const char* what);

// Throws unless `flags`, which a plugin gave, are among `known` or may be ignored. what: "task x:
// batch_info".
void require_known_flags(std::string_view what, std::uint32_t flags, std::uint32_t known);

// Calls a function of a plugin. An exception that comes out of it, which the ABI forbids, is thrown as an
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

// Calls the slots of one plugin object.
class Caller {
 public:
  Caller(const Plugin& plugin, const pl_context& context) : plugin_(plugin), context_(context) {}

  const Plugin& plugin() const { return plugin_; }
  const pl_context& context() const { return context_; }

  // Calls a slot from any thread. A pl_error* that it returns is thrown as Error, anything else is returned.
  // An exception of a callback that the slot called comes out as what it was.
  template <class Function>
  auto any(const char* slot, Function&& function) const {
    PendingException pending;
    auto result = contain(plugin_, slot, std::forward<Function>(function));
    if constexpr (std::is_same_v<decltype(result), pl_error*>) {
      finish(pending.take(), result);
    } else {
      finish(pending.take(), nullptr);
      return result;
    }
  }

  // The same for a slot that is tagged [main].
  template <class Function>
  auto main(const char* slot, Function&& function) const {
    check_main_thread(context_.main_thread(), plugin_.label(), slot);
    return any(slot, std::forward<Function>(function));
  }

  // The same for a slot that cannot fail, and for destructors, which cannot either: what goes wrong all the
  // same is said in the log and the work goes on. Once in a row for a slot: the next batch would only say it
  // again.
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
  // Throws what a callback threw or else what the slot returned, with the plugin's name in front; a
  // configuration error already says where it comes from.
  void finish(std::exception_ptr thrown, pl_error* error) const;

  const Plugin& plugin_;
  const pl_context& context_;
  mutable std::atomic<const char*> said_{nullptr};  // the slot, a literal, of the last one
};

// For the functions that a plugin calls back: what they throw waits in the call that this thread is in, and
// the plugin gets it as an error.
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
