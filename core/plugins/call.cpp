#include "core/plugins/call.hpp"

#include <fmt/format.h>

namespace pipeline::plugins {

void raise(const Plugin& plugin, pl_error* error) {
  try {
    check(error);
  } catch (const Error& e) {
    if (e.code() == PL_ERROR_CONFIG) throw;
    throw Error(e.code(), fmt::format("{}: {}", plugin.label(), e.what()));
  }
  throw Error(plugin.label() + ": failed without an error");  // not reached: callers have an error
}

void raise_escaped(const Plugin& plugin, const char* slot, const char* what) {
  throw Error(fmt::format("{}: a C++ exception left its slot '{}', which the ABI forbids: {}", plugin.label(),
                          slot, what));
}

}  // namespace pipeline::plugins
