#include "plugins/data/proteins/masking.hpp"
#include "plugins/data/residues/alphabet.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

namespace pipeline::proteins {
namespace {

std::vector<uint8_t> sequence(size_t length) {
  std::vector<uint8_t> letters(length);
  for (size_t i = 0; i < length; ++i) letters[i] = static_cast<uint8_t>(i * 7 % residues::kAminoAcidCount);
  return letters;
}

std::vector<int64_t> one_chain(size_t length) { return std::vector<int64_t>(length, 0); }

int64_t targets(const Masking& masking) {
  return std::accumulate(masking.is_target.begin(), masking.is_target.end(), int64_t{0});
}

TEST(Masking, IsAFunctionOfTheSeed) {
  const auto letters = sequence(200);
  const Masking a = mask_for_training(letters, one_chain(200), {}, 5),
                b = mask_for_training(letters, one_chain(200), {}, 5),
                c = mask_for_training(letters, one_chain(200), {}, 6);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.is_target, b.is_target);
  EXPECT_NE(a.is_target, c.is_target);
}

TEST(Masking, TakesTheShareThatWasAskedFor) {
  for (const double ratio : {0.01, 0.15, 0.5, 1.0})
    EXPECT_EQ(targets(mask_for_training(sequence(200), one_chain(200), {.ratio = ratio}, 1)),
              std::lround(ratio * 200))
        << ratio;
}

TEST(Masking, AtLeastOneResidueIsATarget) {
  for (const size_t length : {1, 2, 5})
    for (uint64_t seed = 0; seed < 20; ++seed)
      EXPECT_EQ(targets(mask_for_training(sequence(length), one_chain(length), {}, seed)), 1);
}

TEST(Masking, UnknownResiduesAreNoTargets) {
  std::vector<uint8_t> letters = sequence(60);
  for (size_t i = 0; i < 60; i += 2) letters[i] = residues::kUnknown;
  const Masking masking = mask_for_training(letters, one_chain(60), {.ratio = 1, .span = 4}, 3);
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(masking.is_target[i], i % 2) << i;
    EXPECT_EQ(masking.tokens[i] == residues::kUnknown, i % 2 == 0) << i;
  }
  EXPECT_EQ(targets(mask_for_training(std::vector<uint8_t>(9, residues::kUnknown), one_chain(9), {}, 1)), 0);
}

TEST(Masking, OfHundredTargetsEightyAreMaskedTenRandomAndTenAsTheyAre) {
  int64_t masked = 0, same = 0, other = 0;
  const auto letters = sequence(1000);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Masking masking = mask_for_training(letters, one_chain(1000), {.ratio = 0.5}, seed);
    for (size_t i = 0; i < 1000; ++i) {
      if (masking.is_target[i] == 0) {
        EXPECT_EQ(masking.tokens[i], letters[i]);
      } else {
        ++(masking.tokens[i] == residues::kMaskToken ? masked
           : masking.tokens[i] == letters[i]         ? same
                                                     : other);
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(masked) / 10000, 0.8, 0.015);
  EXPECT_NEAR(static_cast<double>(same) / 10000, 0.1 + 0.1 / 20, 0.01);  // a random one may be the same
  EXPECT_NEAR(static_cast<double>(other) / 10000, 0.1 * 19 / 20, 0.01);
}

TEST(Masking, StretchesHaveTheMeanThatWasAskedFor) {
  double stretches = 0, masked = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Masking masking =
        mask_for_training(sequence(2000), one_chain(2000), {.ratio = 0.02, .span = 5}, seed);
    for (size_t i = 0; i < 2000; ++i) {
      masked += masking.is_target[i];
      stretches += masking.is_target[i] != 0 && (i == 0 || masking.is_target[i - 1] == 0) ? 1 : 0;
    }
  }
  EXPECT_NEAR(masked / stretches, 5, 0.6);
}

TEST(Masking, AStretchEndsWithItsChain) {
  std::vector<int64_t> chains(1000);
  for (size_t i = 0; i < 1000; ++i) chains[i] = static_cast<int64_t>(i / 2);
  double stretches = 0;
  const Masking masking = mask_for_training(sequence(1000), chains, {.ratio = 0.02, .span = 50}, 1);
  for (size_t i = 0; i < 1000; ++i)
    stretches += masking.is_target[i] != 0 && (i % 2 == 0 || masking.is_target[i - 1] == 0) ? 1 : 0;
  EXPECT_GE(stretches, 10);
}

TEST(Masking, ScoringDealsOutEveryKnownResidueEvenly) {
  std::vector<uint8_t> letters = sequence(101);
  letters[50] = residues::kUnknown;
  const uint64_t groups = scoring_groups(0.15);
  EXPECT_EQ(groups, 7u);
  const std::vector<uint32_t> group_of = deal_to_groups(letters, groups, 9);
  EXPECT_EQ(group_of, deal_to_groups(letters, groups, 9));
  EXPECT_NE(group_of, deal_to_groups(letters, groups, 10));
  std::array<int, 7> sizes{};
  for (size_t i = 0; i < 101; ++i) {
    if (i == 50) {
      EXPECT_EQ(group_of[i], kNoGroup);
    } else {
      ASSERT_LT(group_of[i], groups);
      ++sizes[group_of[i]];
    }
  }
  for (const int size : sizes) EXPECT_NEAR(size, 100.0 / 7, 1);
}

TEST(Masking, GroupsForARatio) {
  EXPECT_EQ(scoring_groups(1), 1u);
  EXPECT_EQ(scoring_groups(0.5), 2u);
  EXPECT_EQ(scoring_groups(0.1), 10u);
}

}  // namespace
}  // namespace pipeline::proteins
