// Families made by random substitutions and gaps: what is joined, in the exact way and behind the prefilter.
#include <gtest/gtest.h>

#include <set>

#include "tests/data/clusters/sequences.hpp"

namespace pipeline::clusters {
namespace {

constexpr ClusterOptions kPrefiltered{.exact_up_to = 0};

// `families` of `members` changed copies of an ancestor of 100 to 300 residues, one family behind the other.
std::vector<std::string> make_families(Maker& maker, size_t families, size_t members, double identity) {
  std::vector<std::string> sequences;
  for (size_t family = 0; family < families; ++family) {
    const std::string ancestor = maker.sequence(100 + maker.below(200));
    for (size_t i = 0; i < members; ++i) sequences.push_back(maker.changed(ancestor, identity));
  }
  return sequences;
}

// Pairs that are in one cluster: of one family (within), and of two families (across).
struct Joined {
  size_t within = 0, across = 0;
};
Joined count_joined(const std::vector<uint32_t>& clusters, size_t members) {
  Joined joined;
  for (size_t i = 0; i < clusters.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (clusters[i] == clusters[j]) ++(i / members == j / members ? joined.within : joined.across);
    }
  }
  return joined;
}

class RelatedPairs : public testing::TestWithParam<int> {};

TEST_P(RelatedPairs, AreTogetherAndNoOthers) {
  Maker maker(11);
  std::vector<std::string> sequences;
  constexpr size_t kFamilies = 30;
  for (size_t i = 0; i < kFamilies; ++i) {
    sequences.push_back(maker.sequence(150 + maker.below(150)));
    sequences.push_back(maker.changed(sequences.back(), GetParam() / 100.0));
  }
  const Joined joined = count_joined(clusters_of(sequences), 2);
  EXPECT_EQ(joined.within, kFamilies);
  EXPECT_EQ(joined.across, 0u);
}
INSTANTIATE_TEST_SUITE_P(AtPercentIdentity, RelatedPairs, testing::Values(60, 45, 35));

TEST(Families, RandomSequencesAreApart) {
  Maker maker(12);
  std::vector<std::string> sequences;
  for (int i = 0; i < 250; ++i) sequences.push_back(maker.sequence(20 + maker.below(250)));
  EXPECT_EQ(count_joined(clusters_of(sequences), sequences.size()).within, 0u);
  EXPECT_EQ(count_joined(clusters_of(sequences, kPrefiltered), sequences.size()).within, 0u);
}

TEST(Families, AChainOfRelativesIsOneCluster) {
  Maker maker(13);
  std::vector<std::string> chain{maker.sequence(200)};
  for (int i = 0; i < 5; ++i) chain.push_back(maker.changed(chain.back(), 0.5));
  EXPECT_EQ(clusters_of(chain), std::vector<uint32_t>(6, 0));
  EXPECT_EQ(clusters_of({chain.front(), chain.back()}), (std::vector<uint32_t>{0, 1}));
}

TEST(Families, ThePrefilterFindsFamiliesAbove40Percent) {
  Maker maker(14);
  // Members are related to their ancestor at 70%, so to each other at about 50%; then 65% and about 43%.
  const auto found = [&](double identity) {
    const std::vector<std::string> sequences = make_families(maker, 40, 5, identity);
    const Joined exact = count_joined(clusters_of(sequences), 5),
                 fast = count_joined(clusters_of(sequences, kPrefiltered), 5);
    EXPECT_EQ(exact.within, 400u);
    EXPECT_EQ(exact.across + fast.across, 0u);
    return static_cast<double>(fast.within) / static_cast<double>(exact.within);
  };
  const double at_50 = found(0.7), at_43 = found(0.65);
  RecordProperty("share_at_50_percent", std::to_string(at_50));
  RecordProperty("share_at_43_percent", std::to_string(at_43));
  EXPECT_GE(at_50, 0.99);
  EXPECT_GE(at_43, 0.97);
}

TEST(Families, LargeOnesThatShareAllSeedsAreFound) {
  Maker maker(15);
  const std::string ancestor = maker.sequence(120);
  std::set<std::string> distinct;  // more than a seed lists
  while (distinct.size() < 1200) distinct.insert(maker.changed(ancestor, 0.95));
  const std::vector<std::string> sequences(distinct.begin(), distinct.end());
  EXPECT_EQ(clusters_of(sequences, kPrefiltered), std::vector<uint32_t>(sequences.size(), 0));
}

TEST(Families, TheNumberOfThreadsChangesNothing) {
  Maker maker(16);
  const std::vector<std::string> sequences = make_families(maker, 25, 5, 0.62);
  for (const ClusterOptions& options : {ClusterOptions{}, kPrefiltered}) {
    const std::vector<uint32_t> one = clusters_of(sequences, options, {.threads = 1});
    EXPECT_EQ(clusters_of(sequences, options, {.threads = 2}), one);
    EXPECT_EQ(clusters_of(sequences, options, {.threads = 3}), one);
    EXPECT_EQ(clusters_of(sequences, options, {.threads = 0}), one);
  }
}

}  // namespace
}  // namespace pipeline::clusters
