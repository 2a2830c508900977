// Buffers of any dtype, filled with and read as numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline.h"

namespace pipeline::tests {

struct NamedDtype {
  std::string name;
  pl_dtype dtype;
};
const std::vector<NamedDtype>& every_dtype();

// Owns its memory. Whole numbers up to 256 are exact in every dtype.
class Values {
 public:
  Values(pl_dtype dtype, std::uint64_t count) : dtype_(dtype), count_(count), bytes_(count * width()) {}

  pl_buffer buffer() { return part(0, count_); }
  pl_buffer part(std::uint64_t begin, std::uint64_t count);
  std::uint64_t count() const { return count_; }
  void set(std::uint64_t index, double value);
  double get(std::uint64_t index) const;

 private:
  std::size_t width() const { return dtype_.bits / 8; }

  pl_dtype dtype_;
  std::uint64_t count_;
  std::vector<unsigned char> bytes_;
};

}  // namespace pipeline::tests
