// A random order of 0..size-1 that can be asked for any position without being stored, so that the data order is a pure function
// of a key at any size. A balanced Feistel network over the smallest even number of bits that covers `size`, walked until it
// lands inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
#pragma once

#include <cstdint>

namespace pipeline::train {

class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key);

  uint64_t size() const { return size_; }

  // The element at `position` (< size). Thread-safe.
  uint64_t operator()(uint64_t position) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  unsigned half_bits_;
};

}  // namespace pipeline::train
