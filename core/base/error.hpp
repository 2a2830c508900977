#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "pipeline.h"

// What pl_error points to. Errors are made and freed on this side of the ABI, whoever raises them.
struct pl_error {
  uint32_t code;
  std::string message;
};

namespace pipeline {

// Every failure of the core and of a plugin: the code says what the caller can do about it, the text is for
// people.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : Error(PL_ERROR_FAILED, message) {}
  Error(uint32_t code, const std::string& message) : std::runtime_error(message), code_(code) {}

  // PL_ERROR_FAILED, PL_ERROR_CONFIG, ...
  uint32_t code() const { return code_; }

 private:
  uint32_t code_;
};

// Throws what a slot returned as Error, and frees it; NULL is success.
void check(pl_error* error);

// An error to hand to a plugin. Never NULL and never throws, also when memory is exhausted.
pl_error* make_error(uint32_t code, const std::string& message) noexcept;

// The exception being handled, as an error to hand to a plugin. Call it inside a catch block only.
pl_error* current_exception_as_error() noexcept;

// Runs a callback that a plugin called: no exception may leave it, so a throw becomes the error that it
// returns.
template <class Function>
pl_error* guard(Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return nullptr;
  } catch (...) {
    return current_exception_as_error();
  }
}

// Fills the four error slots of the host's table.
void fill_error_slots(pl_host& host);

}  // namespace pipeline
