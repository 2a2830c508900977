#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/clusters/local_alignment.hpp"
#include "plugins/data/files/error.hpp"
#include "tests/data/clusters/sequences.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::clusters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Clusters, NothingGivesNothing) { EXPECT_THAT(clusters_of({}), ElementsAre()); }

TEST(Clusters, AreNumberedByFirstAppearance) {
  Maker maker(1);
  const std::string a = maker.sequence(100), b = maker.sequence(100), c = maker.sequence(100);
  EXPECT_THAT(clusters_of({b, a, b, c, maker.changed(a, 0.6), c}), ElementsAre(0, 1, 0, 2, 1, 2));
}

TEST(Clusters, TheOrderOfTheSequencesOnlyNumbersThem) {
  Maker maker(2);
  const std::string a = maker.sequence(100), b = maker.sequence(300), c = maker.changed(a, 0.6);
  EXPECT_THAT(clusters_of({a, b, c}), ElementsAre(0, 1, 0));
  EXPECT_THAT(clusters_of({b, c, a}), ElementsAre(0, 1, 1));
}

TEST(Clusters, HalfOfTheShorterSequenceMustBeAligned) {
  Maker maker(3);
  const std::string shared = maker.sequence(60);
  const std::string longer = maker.sequence(200) + shared + maker.sequence(200);
  EXPECT_THAT(clusters_of({longer, shared + maker.sequence(40)}), ElementsAre(0, 0));
  EXPECT_THAT(clusters_of({longer, shared + maker.sequence(200)}), ElementsAre(0, 1));
  EXPECT_THAT(clusters_of({longer, shared + maker.sequence(200)}, {.coverage = 0.15}), ElementsAre(0, 0));
}

TEST(Clusters, TheIdentityThatJoinsIsAnOption) {
  Maker maker(4);
  const std::string a = maker.sequence(200), b = maker.changed(a, 0.6);
  EXPECT_THAT(clusters_of({a, b}, {.identity = 0.5}), ElementsAre(0, 0));
  EXPECT_THAT(clusters_of({a, b}, {.identity = 0.8}), ElementsAre(0, 1));
}

TEST(Clusters, UnknownResiduesJoinNothing) {
  Maker maker(5);
  std::string a = maker.sequence(150), some = a;
  for (size_t i = 0; i < some.size(); i += 4) some[i] = 'X';
  const std::string other = maker.sequence(20) + std::string(100, 'X'),
                    another = maker.sequence(20) + std::string(90, 'X');
  EXPECT_THAT(clusters_of({a, some, other, another}), ElementsAre(0, 0, 1, 2));
}

TEST(Clusters, OptionsOutOfRangeAreErrors) {
  const auto message = [](const ClusterOptions& options) -> std::string {
    return tests::message_of<files::DataError>([&] { clusters_of({"WWW"}, options); });
  };
  EXPECT_THAT(message({.identity = 30}), HasSubstr("identity is 30"));
  EXPECT_THAT(message({.coverage = -1}), HasSubstr("coverage is -1"));
  EXPECT_THAT(message({.identity = std::nan("")}), HasSubstr("identity is nan"));
  EXPECT_THAT(message({.evalue = 0}), HasSubstr("evalue is 0"));
}

TEST(Clusters, ASequenceBeyondAnyProteinIsAnError) {
  EXPECT_THROW(clusters_of({"WWW", std::string(kMaxAlignedLength + 1, 'A')}), files::DataError);
}

class Hooks : public testing::TestWithParam<size_t> {
 protected:
  std::vector<std::string> some() {
    Maker maker(6);
    std::vector<std::string> sequences;
    for (int i = 0; i < 60; ++i) sequences.push_back(maker.sequence(200));
    return sequences;
  }
};

TEST_P(Hooks, ProgressComesOnTheCallingThreadAndStaysBelowTheTotal) {
  int calls = 0;
  const auto here = std::this_thread::get_id();
  const auto progress = [&](uint64_t done, uint64_t total) {
    ++calls;
    EXPECT_LE(done, total);
    EXPECT_EQ(std::this_thread::get_id(), here);
  };
  clusters_of(some(), {.exact_up_to = GetParam()}, {.threads = 1, .progress = progress});
  EXPECT_GE(calls, 1);
  // With luck another thread does everything, so with two the calls cannot be counted.
  clusters_of(some(), {.exact_up_to = GetParam()}, {.threads = 2, .progress = progress});
}

TEST_P(Hooks, CancellingEndsTheWork) {
  EXPECT_THROW(
      clusters_of(some(), {.exact_up_to = GetParam()}, {.threads = 1, .cancelled = [] { return true; }}),
      files::Cancelled);
}

TEST_P(Hooks, WhatAHookThrowsPassesOn) {
  const auto progress = [](uint64_t, uint64_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(clusters_of(some(), {.exact_up_to = GetParam()}, {.threads = 1, .progress = progress}),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(ExactAndPrefiltered, Hooks, testing::Values(3000, 0));

TEST(AssignFolds, TheLargestGoesFirstAndAlwaysToTheEmptiest) {
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{5, 100, 60, 50, 20}, 3), ElementsAre(1, 0, 1, 2, 2));
}

TEST(AssignFolds, EqualsAreTakenInOrder) {
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{7, 7, 7, 7, 7}, 2), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{0, 0, 0}, 2), ElementsAre(0, 0, 0));
}

TEST(AssignFolds, FoldsAreNearlyEqual) {
  std::mt19937_64 engine(4);
  std::vector<uint64_t> clusters(60);
  for (uint64_t& residues : clusters) residues = 30 + engine() % 300;
  const std::vector<uint32_t> folds = assign_folds(clusters, 5);
  std::vector<uint64_t> residues(5);
  for (size_t i = 0; i < clusters.size(); ++i) residues.at(folds[i]) += clusters[i];
  const uint64_t mean = std::accumulate(clusters.begin(), clusters.end(), uint64_t{0}) / 5;
  for (const uint64_t fold : residues)
    EXPECT_NEAR(static_cast<double>(fold), static_cast<double>(mean), 0.02 * static_cast<double>(mean));
}

TEST(AssignFolds, ThereMayBeMoreFoldsThanClusters) {
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{3, 4}, 5), ElementsAre(1, 0));
  EXPECT_THAT(assign_folds({}, 5), ElementsAre());
}

TEST(AssignFolds, NoFoldsAreAnError) {
  EXPECT_THROW(assign_folds(std::vector<uint64_t>{1}, 0), files::DataError);
}

// Tests which sequences of one list are like some of another.

std::vector<uint8_t> similar(const std::vector<std::string>& queries,
                             const std::vector<std::string>& references, SimilarOptions options = {},
                             const files::Hooks& hooks = {}) {
  const std::vector<std::string_view> wanted(queries.begin(), queries.end()),
      known(references.begin(), references.end());
  return find_similar(wanted, known, options, hooks);
}

class Similar : public testing::TestWithParam<bool> {
 protected:
  SimilarOptions options() const { return {.similar = {}, .set_size = 100, .prefiltered = GetParam()}; }
};

TEST_P(Similar, EqualOnesAndRelativesAreFound) {
  Maker maker(1);
  const std::string a = maker.sequence(200), b = maker.sequence(180);
  const std::vector<std::string> references{maker.sequence(100), b, maker.sequence(300), a, a};
  EXPECT_THAT(similar({maker.changed(a, 0.6), maker.sequence(150), b, maker.changed(b, 0.6), b}, references,
                      options()),
              ElementsAre(1, 0, 1, 1, 1));
}

TEST_P(Similar, ARelativeOfARelativeIsNone) {
  Maker maker(2);
  std::vector<std::string> line{maker.sequence(200)};
  for (int i = 0; i < 5; ++i) line.push_back(maker.changed(line.back(), 0.5));
  ASSERT_EQ(clusters_of(line), std::vector<uint32_t>(6, 0)) << "as clusters they are one";
  EXPECT_THAT(similar({line[5], line[1]}, {line[0]}, options()), ElementsAre(0, 1));
}

TEST_P(Similar, ManyQueriesOfManyLengthsOnAnyNumberOfThreads) {
  Maker maker(3);
  std::vector<std::string> queries, references;
  std::vector<uint8_t> expected;
  for (int i = 0; i < 50; ++i) references.push_back(maker.sequence(60 + maker.below(200)));
  for (size_t i = 0; i < 50; ++i) {
    expected.push_back(i % 3 == 0 ? 1 : 0);
    queries.push_back(i % 3 == 0 ? maker.changed(references[i], 0.7) : maker.sequence(60 + maker.below(200)));
  }
  for (const unsigned threads : {1u, 3u})
    EXPECT_EQ(similar(queries, references, options(), {.threads = threads}), expected);
}

TEST_P(Similar, SignificanceGoesByTheSetThatBothArePartsOf) {
  Maker maker(4);
  const std::string a = maker.sequence(30),
                    b = maker.changed(a, 0.62);  // short, so hardly better than chance
  SimilarOptions few = options(), many = options();
  many.set_size = 100'000'000;
  EXPECT_THAT(similar({a}, {a}, many), ElementsAre(1)) << "equal ones are, whatever their length";
  EXPECT_THAT(similar({b}, {a}, many), ElementsAre(0));
  few.set_size = 1;
  few.prefiltered = false;
  EXPECT_THAT(similar({b}, {a}, few), ElementsAre(1));
}

TEST_P(Similar, NothingIsLikeNothing) {
  EXPECT_THAT(similar({}, {"AAA"}, options()), ElementsAre());
  EXPECT_THAT(similar({"AAA"}, {}, options()), ElementsAre(0));
}

TEST_P(Similar, CanBeCancelled) {
  Maker maker(5);
  const std::string a = maker.sequence(200);
  EXPECT_THROW(similar({maker.changed(a, 0.9)}, {a}, options(), {.cancelled = [] { return true; }}),
               files::Cancelled);
}

TEST_P(Similar, RelativesWithoutSeedsInCommonAreFoundOnlyWhereEveryPairIsAligned) {
  Maker maker(6);
  const std::string a = maker.sequence(120);
  std::string half = a;  // a seed has two neighbouring residues
  for (size_t i = 0; i < half.size(); i += 2) half[i] = half[i] == 'A' ? 'G' : 'A';
  EXPECT_THAT(similar({half}, {a}, options()), ElementsAre(GetParam() ? 0 : 1));
}

INSTANTIATE_TEST_SUITE_P(ExactAndPrefiltered, Similar, testing::Bool());

// Families made by random substitutions and gaps: what is joined, in the exact way and behind the prefilter.

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
