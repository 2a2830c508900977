#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/text.hpp>

#include <stdexcept>
#include <string>

PIPELINE_SDK_BEGIN

// What a plugin throws, and what it catches when a call to the host or to another plugin fails. The message
// says what failed, the value seen, the value expected and what to do; the SDK prefixes the plugin's name
// when the error leaves the plugin.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : Error(PL_ERROR_FAILED, message) {}
  Error(uint32_t code, const std::string& message) : std::runtime_error(message), code_(code) {}

  // An error that came through the ABI: its message already names its origin and is passed on unchanged.
  static Error received(uint32_t code, const std::string& message) {
    Error error(code, message);
    error.received_ = true;
    return error;
  }

  uint32_t code() const { return code_; }  // PL_ERROR_...
  bool was_received() const { return received_; }

 private:
  uint32_t code_;
  bool received_ = false;
};

// Throws Error; the message is the parts, concatenated.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(concat(parts...));
}

template <class... Parts>
[[noreturn]] void fail_with(uint32_t code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

PIPELINE_SDK_END
