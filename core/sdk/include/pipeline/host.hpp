#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/receive.hpp>

#include <string>
#include <string_view>

PIPELINE_SDK_BEGIN

// Set by the entry function, once per plugin.
struct Globals {
  pl_host host{};           // fields the host lacks are zero
  std::string plugin_name;  // prefix of every message
};

// Never destroyed: a worker thread may still fail while the process exits.
inline Globals& globals() {
  static Globals& instance = *new Globals;
  return instance;
}

inline const pl_host& host() { return globals().host; }

// Throws the error that an ABI call returned, if any, and frees it.
inline void check(pl_error* error) {
  if (error == nullptr) return;
  const Error copy =
      Error::received(host().error_code(error), std::string(view(host().error_message(error))));
  host().error_free(error);
  throw copy;
}

inline pl_error* make_error(uint32_t code, std::string_view message) {
  return host().error_new(code, str(message));
}

PIPELINE_SDK_END
