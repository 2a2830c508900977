#include "core/train/data/permutation.hpp"

#include <bit>

namespace pipeline::train {
namespace {

// Small domains need many rounds: with 4 the orders of ten samples are visibly uneven.
constexpr unsigned kRounds = 12;

// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key)
    : size_(size), key_(key), half_bits_((static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2) {}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (unsigned round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(key_ ^ mix(right + (uint64_t{round} << 40))) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

uint64_t Permutation::operator()(uint64_t position) const {
  do position = encrypt(position);
  while (position >= size_);  // fewer than four turns on average: the domain is at most 4 x size
  return position;
}

}  // namespace pipeline::train
