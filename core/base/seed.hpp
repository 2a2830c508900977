#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/base/hash.hpp"

namespace pipeline {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every input bit reaches every output
// bit.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The only source of randomness of a run: a pure function of its arguments, 64 well-mixed bits. Streams keep
// uses apart ("shuffle", "dropout", "initialize"); a, b, c say which epoch, step, parameter. Part of a run's
// results: its values never change.
constexpr uint64_t derive_seed(uint64_t seed, std::string_view stream, uint64_t a = 0, uint64_t b = 0,
                               uint64_t c = 0) {
  uint64_t state = 0;
  // For a given state a bijection of the value, so that two different values never meet.
  for (const uint64_t value : {seed, fnv1a(stream), a, b, c}) state = mix(state ^ mix(value));
  return state;
}

}  // namespace pipeline
