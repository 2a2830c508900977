#pragma once

#include <stdexcept>
#include <string>

namespace pipeline::safetensors {

// Every failure of this library: which file, which tensor, the value seen, the value expected.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int os_error = 0)
      : std::runtime_error(message), os_error_(os_error) {}

  // errno of the system call that failed (ENOSPC: disk full); 0 if the content is at fault.
  int os_error() const { return os_error_; }

 private:
  int os_error_;
};

}  // namespace pipeline::safetensors
