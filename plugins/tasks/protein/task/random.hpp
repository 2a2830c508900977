#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace pipeline::protein {

// Random numbers that are the same on every machine: splitmix64 (Steele et al. 2014), and what follows from
// it by arithmetic.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // 0 .. count - 1, count > 0.
  uint64_t below(uint64_t count) { return static_cast<uint64_t>((static_cast<Wide>(next()) * count) >> 64); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {                                                         // Box and Muller 1958
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t state_;
};

}  // namespace pipeline::protein
