#include "plugins/tasks/protein/task/sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "plugins/tasks/protein/task/scoring.hpp"

namespace pipeline::protein {
namespace {

using testing::ElementsAre;

std::vector<Residue> chain(size_t length, uint8_t first = 0) {
  std::vector<Residue> residues(length);
  for (size_t i = 0; i < length; ++i) {
    residues[i].amino_acid = static_cast<uint8_t>((first + i) % kAminoAcidCount);
    residues[i].flags = Residue::kHasCa;
    residues[i].ca = {static_cast<float>(i) * 3.8f, static_cast<float>(first), 0};
  }
  return residues;
}

Sample sample_of(const std::vector<std::vector<Residue>>& chains) {
  std::vector<std::span<const Residue>> spans(chains.begin(), chains.end());
  return make_sample(spans);
}

TEST(Sample, KnowsWhichChainsAreCopies) {
  const Sample sample = sample_of({chain(3), chain(2, 5), chain(3), chain(3, 1)});
  EXPECT_THAT(sample.chains, ElementsAre(0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3));
  EXPECT_THAT(sample.copy_of, ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 8, 9, 10));
}

TEST(Sample, APartKeepsCopiesTogetherWhenTheFirstOfThemIsGone) {
  const Sample sample = sample_of({chain(3), chain(3), chain(3)});
  const std::vector<int64_t> rows{2, 3, 4, 5, 6};  // of the first chain only the last residue
  const Sample part = sample.part(rows);
  EXPECT_THAT(part.copy_of, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(part.chains, ElementsAre(0, 1, 1, 1, 2));
}

TEST(Crop, ContiguousKeepsAsManyAsAllowedAndEveryPlaceIsPossible) {
  EXPECT_THAT(crop_contiguous(3, 5, 1), ElementsAre(0, 1, 2));
  std::vector<int> starts(4, 0);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto rows = crop_contiguous(10, 7, seed);
    ASSERT_EQ(rows.size(), 7u);
    EXPECT_EQ(rows.back(), rows.front() + 6);
    ++starts[static_cast<size_t>(rows.front())];
  }
  for (const int count : starts) EXPECT_GT(count, 20);
}

TEST(Crop, SpatialKeepsWhatIsNearAcrossChains) {
  Sample sample = sample_of({chain(50), chain(50, 1)});  // two rows side by side
  const auto rows = crop_spatial(sample, 20, 3);
  ASSERT_EQ(rows.size(), 20u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  const auto second = std::count_if(rows.begin(), rows.end(), [](int64_t row) { return row >= 50; });
  EXPECT_NEAR(static_cast<double>(second), 10, 1);
  for (Residue& residue : sample.residues) residue.flags = 0;
  EXPECT_EQ(crop_spatial(sample, 20, 3).size(), 20u) << "no residue has a place";
}

TEST(Crop, ResiduesWithoutAPlaceComeLast) {
  Sample sample = sample_of({chain(30)});
  sample.residues[7].flags = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto rows = crop_spatial(sample, 29, seed);
    EXPECT_EQ(std::count(rows.begin(), rows.end(), 7), 0);
  }
}

TEST(Noise, HasTheDeviationThatWasAskedForAndIsAFunctionOfTheSeed) {
  std::vector<Residue> a(2000), b(2000);
  add_noise(a, 0.3, 4);
  add_noise(b, 0.3, 4);
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ca.x, b[i].ca.x);
    squares += a[i].n.x * a[i].n.x + a[i].ca.y * a[i].ca.y + a[i].c.z * a[i].c.z;
  }
  EXPECT_NEAR(std::sqrt(squares / 6000), 0.3, 0.01);
}

// How often each residue of samples of these lengths is a target, if all residues were in group 0.
TEST(Scoring, PiecesCoverEverySampleOnce) {
  const std::vector<int64_t> lengths{5, 16, 17, 40};
  const std::vector<ScoringPass> passes = scoring_passes(lengths, 16, 1);
  std::vector<std::vector<int>> times;
  for (const int64_t length : lengths) times.emplace_back(static_cast<size_t>(length), 0);
  for (const ScoringPass& pass : passes) {
    EXPECT_LE(pass.count, 16);
    EXPECT_GE(pass.first, 0);
    EXPECT_LE(pass.first + pass.count, lengths[pass.sample]);
    for (int64_t row = pass.score; row < pass.first + pass.count; ++row) ++times[pass.sample][static_cast<size_t>(row)];
  }
  for (const auto& sample : times)
    for (const int count : sample) EXPECT_EQ(count, 1);
}

TEST(Scoring, TheFirstPassesAreOverDifferentSamples) {
  const std::vector<ScoringPass> passes = scoring_passes({5, 6, 7}, 16, 4);
  ASSERT_EQ(passes.size(), 12u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(passes[i].sample, i);
  EXPECT_EQ(passes[3].group, 1u);
}

}  // namespace
}  // namespace pipeline::protein
