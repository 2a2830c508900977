#pragma once

#include <stdexcept>
#include <string>

namespace pipeline::text {

// What is wrong with a tokenizer's files, or with ids given to it: the file, the line or entry, what was
// expected.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int code = 0) : std::runtime_error(message), code_(code) {}

  int code() const { return code_; }  // errno, or 0 where the system had no part in it

 private:
  int code_;
};

}  // namespace pipeline::text
