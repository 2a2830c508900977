#pragma once

#include <bit>
#include <cstdint>

#include "core/base/seed.hpp"

namespace pipeline {

// A random order of 0..size-1 that can be asked for any position without being stored, so that the data order
// is a pure function of a key at any size. A balanced Feistel network over the smallest even number of bits
// that covers `size`, walked until it lands inside (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", 2002). Part of a run's results: its values never change.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key)
      : size_(size),
        key_(key),
        half_bits_((static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2) {}

  uint64_t size() const { return size_; }

  // The element at `position` (< size). Thread-safe.
  uint64_t operator()(uint64_t position) const {
    do position = encrypt(position);
    while (position >= size_);  // fewer than four turns on average: the domain is at most 4 x size
    return position;
  }

 private:
  // Small domains need many rounds: with 4 the orders of ten elements are visibly uneven.
  static constexpr unsigned kRounds = 12;

  uint64_t encrypt(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_, right = value & mask;
    for (unsigned round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix(key_ ^ mix(right + (uint64_t{round} << 40))) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t size_;
  uint64_t key_;
  unsigned half_bits_;
};

}  // namespace pipeline
