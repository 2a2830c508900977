#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/residue.hpp"

#include <map>

#include <gmock/gmock.h>

#include <cmath>

#include "plugins/data/proteins/masking.hpp"
#include "tests/data/proteins/made_up_chains.hpp"

namespace pipeline::proteins {
namespace {

using testing::ElementsAre;

std::vector<residues::Residue> chain(size_t length, uint8_t first = 0) {
  std::vector<residues::Residue> residues(length);
  for (size_t i = 0; i < length; ++i) {
    residues[i].amino_acid = static_cast<uint8_t>((first + i) % residues::kAminoAcidCount);
    residues[i].flags = residues::Residue::kHasCa;
    residues[i].ca = {static_cast<float>(i) * 3.8f, static_cast<float>(first), 0};
  }
  return residues;
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

TEST(Sample, OfASequenceIsNumberedFromOneAndHasNoCoordinates) {
  const std::vector<uint8_t> codes{4, residues::kUnknown, 0};
  const Sample sample = make_sample(codes);
  EXPECT_EQ(sample.codes, codes);
  EXPECT_THAT(sample.chains, ElementsAre(0, 0, 0));
  EXPECT_THAT(sample.copy_of, ElementsAre(0, 1, 2));
  EXPECT_TRUE(sample.backbone.empty());
  EXPECT_EQ(sample.number(2), 3);
  EXPECT_EQ(sample.position(2), 2);
  EXPECT_EQ(sample.insertion(2), ' ');
  EXPECT_FALSE(sample.has_frame(0));
  EXPECT_FALSE(sample.is_known(1));
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
  for (residues::Residue& residue : sample.backbone) residue.flags = 0;
  EXPECT_EQ(crop_spatial(sample, 20, 3).size(), 20u) << "no residue has a place";
}

TEST(Crop, ResiduesWithoutAPlaceComeLast) {
  Sample sample = sample_of({chain(30)});
  sample.backbone[7].flags = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto rows = crop_spatial(sample, 29, seed);
    EXPECT_EQ(std::count(rows.begin(), rows.end(), 7), 0);
  }
}

TEST(Noise, HasTheDeviationThatWasAskedForAndIsAFunctionOfTheSeed) {
  std::vector<residues::Residue> a(2000), b(2000);
  add_noise(a, 0.3, 4);
  add_noise(b, 0.3, 4);
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ca.x, b[i].ca.x);
    squares += a[i].n.x * a[i].n.x + a[i].ca.y * a[i].ca.y + a[i].c.z * a[i].c.z;
  }
  EXPECT_NEAR(std::sqrt(squares / 6000), 0.3, 0.01);
}

TEST(Sample, APartIsStoodForByAResidueThatIsKnown) {
  Sample sample = sample_of({chain(12), chain(12), chain(12)});
  sample.codes[13] = residues::kUnknown;
  const std::vector<int64_t> rows{
      13, 14, 25};  // two copies of residue 1, the first of them unknown, and one of residue 2
  EXPECT_THAT(sample.part(rows).copy_of, ElementsAre(2, 1, 2));
}

// Residues dealt out to groups in turn.
std::vector<uint32_t> in_turn(size_t length, uint32_t groups) {
  std::vector<uint32_t> group_of(length);
  for (size_t i = 0; i < length; ++i) group_of[i] = static_cast<uint32_t>(i) % groups;
  return group_of;
}

TEST(Scoring, PassesMakeEachResidueATargetOnceAndNoneIsWithoutTargets) {
  for (const size_t length : {5, 16, 17, 40, 65})
    for (const uint32_t groups : {1u, 3u, 7u, 100u}) {
      std::vector<uint32_t> group_of = in_turn(length, groups);
      group_of[4] = kNoGroup;
      std::vector<int> times(length, 0);
      uint32_t before = 0;
      for (const ScoringPass& pass : scoring_passes(3, group_of, 16)) {
        EXPECT_EQ(pass.sample, 3u);
        EXPECT_LE(pass.count, 16);
        EXPECT_LE(pass.first, pass.score) << "what is scored is seen";
        EXPECT_LE(pass.first + pass.count, static_cast<int64_t>(length));
        EXPECT_GE(pass.group, before) << "group after group";
        before = pass.group;
        int targets = 0;
        for (int64_t row = pass.score; row < pass.first + pass.count; ++row) {
          if (group_of[static_cast<size_t>(row)] != pass.group) continue;
          ++times[static_cast<size_t>(row)];
          ++targets;
        }
        EXPECT_GT(targets, 0) << length << " residues, group " << pass.group << " of " << groups;
      }
      for (size_t i = 0; i < length; ++i) EXPECT_EQ(times[i], i == 4 ? 0 : 1) << i;
    }
}

TEST(Scoring, ThereAreNoMorePassesThanResiduesToScore) {
  EXPECT_EQ(scoring_passes(0, in_turn(100, 5000), 16).size(), 100u);
  EXPECT_EQ(scoring_passes(0, in_turn(30, 7), 64).size(), 7u);
}

TEST(Scoring, TheFirstPassesAreOverDifferentSamples) {
  // Samples 1, 2 and 5 have passes of their own.
  ScoringPasses passes(4);
  passes.add_whole();
  passes.add(scoring_passes(1, in_turn(40, 4), 16));
  passes.add(scoring_passes(2, in_turn(3, 4), 16));
  passes.add_whole();
  passes.add_whole();
  passes.add(scoring_passes(5, in_turn(2, 4), 16));
  passes.add_whole();
  passes.finish();
  ASSERT_EQ(passes.size(), 4u * 4 + 12 + 3 + 2);
  std::vector<uint32_t> samples, groups;
  for (uint64_t i = 0; i < 8; ++i) samples.push_back(passes[i].sample), groups.push_back(passes[i].group);
  EXPECT_THAT(samples, ElementsAre(0, 3, 4, 6, 0, 3, 4, 6));
  EXPECT_THAT(groups, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_EQ(passes[0].count, 0) << "all of it";
  std::map<std::pair<uint32_t, uint32_t>, int> pieces;  // by sample and group
  for (uint64_t i = 0; i < passes.size(); ++i) {
    ++pieces[{passes[i].sample, passes[i].group}];
    if (i >= 17) {
      EXPECT_LE(passes[i - 1].group, passes[i].group) << i;
    }
  }
  EXPECT_EQ((pieces[{1, 2}]), 3) << "in three pieces of 16";
  EXPECT_EQ((pieces[{6, 3}]), 1);
  EXPECT_EQ((pieces[{5, 1}]), 1);
  EXPECT_EQ(pieces.count({5, 2}), 0u);
}

}  // namespace
}  // namespace pipeline::proteins
