#pragma once

#include <exception>
#include <utility>

#include "core/plugins/error.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/thread_check.hpp"

namespace pipeline::plugins {

// Throws what a slot returned, with the plugin's name in front; a configuration error already says where it
// comes from.
[[noreturn]] void raise(const Plugin& plugin, pl_error* error);
// Throws: an exception came out of a slot.
[[noreturn]] void raise_escaped(const Plugin& plugin, const char* slot, const char* what);

// Calls the slots of one plugin object.
class Caller {
 public:
  Caller(const Plugin& plugin, const pl_context& context) : plugin_(plugin), context_(context) {}

  const Plugin& plugin() const { return plugin_; }
  const pl_context& context() const { return context_; }

  // Calls a slot that returns pl_error*, from any thread. An exception of a callback that the slot called
  // comes out as what it was.
  template <class Function>
  void any(const char* slot, Function&& function) const {
    pl_error* error = nullptr;
    try {
      error = std::forward<Function>(function)();
    } catch (const std::exception& e) {
      raise_escaped(plugin_, slot, e.what());
    } catch (...) {
      raise_escaped(plugin_, slot, "not a std::exception");
    }
    try {
      context_.rethrow();
    } catch (...) {
      host_table().error_free(error);
      throw;
    }
    if (error) raise(plugin_, error);
  }

  // The same for a slot that is tagged [main].
  template <class Function>
  void main(const char* slot, Function&& function) const {
    check_main(slot);
    any(slot, std::forward<Function>(function));
  }

  void check_main(const char* slot) const {
    check_main_thread(context_.main_thread(), plugin_.label(), slot);
  }

 private:
  const Plugin& plugin_;
  const pl_context& context_;
};

// For the functions that a plugin calls back: what they throw is kept in the context, and the plugin gets it
// as an error.
template <class Function>
pl_error* call_back(const pl_context& context, Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return nullptr;
  } catch (...) {
    context.keep_exception();
    return current_exception_as_error();
  }
}

}  // namespace pipeline::plugins
