#include <gmock/gmock.h>

#include <thread>

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

}  // namespace
}  // namespace pipeline::clusters
