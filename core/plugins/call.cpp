#include "core/plugins/call.hpp"

#include <fmt/format.h>

#include "core/base/fail.hpp"

namespace pipeline::plugins {

void require_known_flags(std::string_view what, std::uint32_t flags, std::uint32_t known) {
  if (flags & ~(known | PL_FLAGS_MAY_IGNORE))
    fail(PL_ERROR_UNSUPPORTED, "{}: flags {:#x} has bits that are unknown", what, flags);
}

void raise_escaped(const Plugin& plugin, const char* slot, const char* what) {
  fail("{}: a C++ exception left its slot '{}', which the ABI forbids: {}", plugin.label(), slot, what);
}

void UserCode::end_child(const Plugin& plugin, const char* slot) {
  fmt::print(stderr,
             "error: {}: a process that its slot '{}' has forked returned from it: the run is its parent's, "
             "so it ends here; end it in the task, by _exit()\n",
             plugin.label(), slot);
  std::fflush(stderr);
  ::_exit(1);
}

void Caller::finish(std::exception_ptr thrown, pl_error* error) const {
  if (thrown) {
    host_table().error_free(error);
    std::rethrow_exception(std::move(thrown));
  }
  try {
    check(error);
  } catch (const Error& e) {
    std::string_view message = e.what();
    if (e.code() == PL_ERROR_CONFIG || message.starts_with(plugin_.path().native())) throw;
    const std::string own = plugin_.name() + ": ";  // plugins put their name in front, too
    if (message.starts_with(own)) message.remove_prefix(own.size());
    fail(e.code(), "{}: {}", plugin_.label(), message);
  }
}

}  // namespace pipeline::plugins
