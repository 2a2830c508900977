#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>

#include "plugins/data/proteins/masking.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/residues/residue.hpp"
#include "tests/data/proteins/made_up_chains.hpp"

namespace pipeline::proteins {
namespace {

using testing::ElementsAre;

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

// Masks of samples with copies of chains: what a target is must not be seen in another copy.

// A dimer of which each chain lacks something of the other, a third chain that stands alone, and an unknown
// residue.
Sample ragged_dimer() {
  const auto whole = made_up_chain(90, 1);
  auto other = without(part_of(whole, 0, 85), 30, 12);
  other[50].amino_acid = residues::kUnknown;
  auto alone = made_up_chain(30, 2);
  for (residues::Residue& residue : alone) residue.number += 1000;
  return sample_of({part_of(whole, 3, 90), other, alone});
}

// Rows of the residues with each number: what a user would call the same residue.
std::map<int32_t, std::vector<size_t>> rows_by_number(const Sample& sample) {
  std::map<int32_t, std::vector<size_t>> rows;
  for (size_t i = 0; i < sample.size(); ++i) rows[sample.number(i)].push_back(i);
  return rows;
}

TEST(SampleMasking, CopiesAreNotDrawn) {
  Sample sample = sample_of({made_up_chain(12, 3), made_up_chain(12, 3)});
  const auto amino_acids = amino_acids_to_mask(sample);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(amino_acids[i], sample.codes[i]);
    EXPECT_EQ(amino_acids[12 + i], residues::kUnknown);
  }
}

TEST(SampleMasking, UnknownResiduesAreDrawnOnlyIfTheyAreWanted) {
  auto chain = made_up_chain(5, 4);
  chain[2].amino_acid = residues::kUnknown;
  const Sample sample = sample_of({chain, chain});
  EXPECT_EQ(amino_acids_to_mask(sample)[2], residues::kUnknown);
  EXPECT_LT(amino_acids_to_mask(sample, true)[2], residues::kAminoAcidCount);
  EXPECT_EQ(amino_acids_to_mask(sample, true)[7], residues::kUnknown) << "a copy";
}

TEST(SampleMasking, CopiesLookLikeWhatStandsForThem) {
  auto chain = made_up_chain(10, 5), mutant = chain;
  mutant[3].amino_acid = static_cast<uint8_t>((chain[3].amino_acid + 1) % residues::kAminoAcidCount);
  mutant[4].amino_acid = residues::kUnknown;
  Sample sample;
  for (const auto& one : {chain, mutant})
    for (const residues::Residue& residue : one) sample.codes.push_back(residue.amino_acid);
  for (int64_t i = 0; i < 20; ++i) sample.chains.push_back(i / 10), sample.copy_of.push_back(i % 10);
  Masking drawn{.tokens = std::vector<int64_t>(20, 77), .is_target = std::vector<uint8_t>(20, 0)};
  for (size_t i = 0; i < 10; ++i) drawn.tokens[i] = chain[i].amino_acid;
  for (const size_t i : {1, 2, 3, 4}) drawn.is_target[i] = 1;
  const int64_t other = (chain[2].amino_acid + 5) % residues::kAminoAcidCount;
  drawn.tokens[1] = residues::kMaskToken, drawn.tokens[2] = other,
  drawn.tokens[4] = residues::kMaskToken;  // 3 is shown as it is
  const Masking masking = with_copies(drawn, sample);
  EXPECT_THAT(std::vector<uint8_t>(masking.is_target.begin() + 10, masking.is_target.end()),
              ElementsAre(0, 1, 1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(masking.tokens[11], residues::kMaskToken);
  EXPECT_EQ(masking.tokens[12], other);
  EXPECT_EQ(masking.tokens[13], int64_t{mutant[3].amino_acid})
      << "shown as it is, which is not as the other is";
  EXPECT_EQ(masking.tokens[14], residues::kUnknown)
      << "an unknown residue says nothing, and cannot be predicted";
  EXPECT_EQ(masking.tokens[15], int64_t{mutant[5].amino_acid});
}

TEST(SampleMasking, NoCopyOfATargetIsVisibleInTraining) {
  const Sample whole = ragged_dimer();
  std::vector<int64_t> rows;
  for (int64_t i = 20; i < 150; ++i) rows.push_back(i);
  for (const Sample& sample : {whole, whole.part(rows)}) {
    int64_t targets = 0, pairs = 0;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const MaskingOptions options{.ratio = 0.3, .random = 0, .keep = 0, .span = seed % 2 == 0 ? 1.0 : 4.0};
      const Masking masking =
          with_copies(mask_for_training(amino_acids_to_mask(sample), sample.chains, options, seed), sample);
      for (const auto& [number, copies] : rows_by_number(sample))
        for (const size_t a : copies)
          for (const size_t b : copies) {
            if (masking.is_target[a] == 0) continue;
            ++(a == b ? targets : pairs);
            EXPECT_GE(masking.tokens[b], int64_t{residues::kUnknown})
                << "residue " << number << " of row " << a << " is seen in row " << b;
          }
    }
    EXPECT_GT(targets, 1000);
    EXPECT_GT(pairs, 500);
  }
}

TEST(SampleMasking, NoCopyOfATargetIsVisibleInScoringAndEachIsATargetOnce) {
  const Sample sample = ragged_dimer();
  const auto copies = rows_by_number(sample);
  constexpr uint64_t kGroups = 7;
  for (const bool unknown_too : {false, true}) {
    const ScoringGroups groups = scoring_groups_of(sample, kGroups, 9, unknown_too);
    std::vector<int> times(sample.size(), 0);
    for (const ScoringPass& pass : scoring_passes(0, groups, 64)) {
      const Masking masking = mask_group(sample, groups, pass);
      const auto visible = [&](size_t row) {
        const int64_t n = static_cast<int64_t>(row) - pass.first;
        return n >= 0 && n < pass.count &&
               masking.tokens[static_cast<size_t>(n)] < int64_t{residues::kUnknown};
      };
      for (int64_t n = 0; n < pass.count; ++n) {
        if (masking.is_target[static_cast<size_t>(n)] == 0) continue;
        const auto row = static_cast<size_t>(pass.first + n);
        ++times[row];
        for (const size_t copy : copies.at(sample.number(row)))
          EXPECT_FALSE(visible(copy)) << row << " is seen in " << copy;
      }
    }
    for (size_t i = 0; i < times.size(); ++i)
      EXPECT_EQ(times[i], unknown_too || sample.is_known(i) ? 1 : 0) << i;
  }
}

}  // namespace
}  // namespace pipeline::proteins
