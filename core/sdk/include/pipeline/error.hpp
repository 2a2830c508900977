#pragma once

#include <pipeline/namespace.hpp>

#include <pipeline.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

PIPELINE_SDK_BEGIN

inline std::string_view view(pl_str s) {
  return s.len == 0 ? std::string_view() : std::string_view(s.ptr, s.len);
}

// Borrows `text`.
inline pl_str str(std::string_view text) { return {text.data(), text.size()}; }

// concat("epoch ", 3, " of ", 2.5) is "epoch 3 of 2.5".
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

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
