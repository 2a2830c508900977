#include "core/base/seed.hpp"

#include <initializer_list>

#include "core/base/hash.hpp"

namespace pipeline {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio

// The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every input bit
// reaches every output bit.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// For a given state a bijection of `value`, so that two different values never meet.
uint64_t absorb(uint64_t state, uint64_t value) { return mix((state ^ mix(value + kGolden)) + kGolden); }

}  // namespace

uint64_t derive_seed(uint64_t seed, std::string_view stream, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t state = absorb(0, seed);
  for (uint64_t value : {fnv1a(stream), a, b, c}) state = absorb(state, value);
  return state;
}

}  // namespace pipeline
