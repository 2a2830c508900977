#include "core/base/hash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <set>

namespace pipeline {
namespace {

// The values are part of every run's results: they may never change.
TEST(Seed, HasItsGoldenValues) {
  EXPECT_EQ(derive_seed(0, ""), 0xe4d2b06ded92692ull);
  EXPECT_EQ(derive_seed(0, "shuffle"), 0x6bcbd1e5676cc94dull);
  EXPECT_EQ(derive_seed(1, "shuffle"), 0xe9e48caae27ca35bull);
  EXPECT_EQ(derive_seed(1, "shuffle", 1, 2, 3), 0x3d8bdf0887ba1cbcull);
  EXPECT_EQ(derive_seed(~0ull, "dropout", ~0ull, ~0ull, ~0ull), 0xdfb95bb380d51e4full);
}

TEST(Seed, DependsOnEveryArgumentAndItsPlace) {
  std::set<std::uint64_t> seen;
  std::size_t calls = 0;
  for (std::uint64_t seed : {0, 1, 2})
    for (const char* stream : {"", "a", "b", "ab", "ba"})
      for (std::uint64_t a : {0, 1, 2})
        for (std::uint64_t b : {0, 1, 2})
          for (std::uint64_t c : {0, 1, 2}) seen.insert(derive_seed(seed, stream, a, b, c)), ++calls;
  EXPECT_EQ(seen.size(), calls);
}

// Neighbouring steps must not have related dropout: one changed input bit changes half of the output bits.
TEST(Seed, MixesEveryInputBitIntoTheOutput) {
  for (int bit = 0; bit < 64; ++bit) {
    double flipped = 0;
    for (std::uint64_t step = 0; step < 500; ++step)
      flipped += std::popcount(derive_seed(7, "dropout", step, 3) ^
                               derive_seed(7, "dropout", step ^ (1ull << bit), 3));
    EXPECT_NEAR(flipped / 500, 32, 1) << "input bit " << bit;
  }
}

TEST(Seed, IsUniformInItsLowBits) {
  std::array<int, 256> count{};
  for (std::uint64_t i = 0; i < 256 * 200; ++i) ++count[derive_seed(1, "shuffle", i) & 255];
  double chi_square = 0;
  for (int n : count) chi_square += (n - 200.0) * (n - 200.0) / 200.0;
  EXPECT_LT(chi_square, 400);  // 255 expected, 99.9999th percentile near 380
  EXPECT_GT(chi_square, 150);
}

}  // namespace
}  // namespace pipeline
