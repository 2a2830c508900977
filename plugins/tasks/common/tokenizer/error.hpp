#pragma once

#include <stdexcept>

namespace pipeline::text {

// What is wrong with a tokenizer's files, or with ids given to it: the file, the line or entry, what was
// expected.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace pipeline::text
