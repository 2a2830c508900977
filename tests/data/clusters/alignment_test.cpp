#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <test_paths.hpp>

#include "plugins/data/clusters/local_alignment.hpp"
#include "tests/data/clusters/sequences.hpp"

namespace pipeline::clusters {
namespace {

LocalAlignment align(std::string_view a, std::string_view b) {
  return align_locally(encode_letters(a), encode_letters(b));
}

TEST(LocalAlignment, ScoresAreBiopythonsAndCountsTheTextbooks) {
  std::ifstream file(PIPELINE_SOURCE_DIR "/tests/data/clusters/fixtures/alignments.txt");
  int score = 0;
  long long identities = 0, columns = 0, lines = 0;
  std::string a, b;
  for (; file >> score >> identities >> columns >> a >> b; ++lines) {
    const LocalAlignment found = align(a, b);
    EXPECT_EQ(found.score, score) << a << ' ' << b;
    EXPECT_EQ(found.identities, identities) << a << ' ' << b;
    EXPECT_EQ(found.columns, columns) << a << ' ' << b;
  }
  EXPECT_EQ(lines, 250);
}

TEST(LocalAlignment, AGapOfKResiduesCostsElevenAndK) {
  EXPECT_EQ(align("WWWWWWWW", "WWWWAWWWW").score, 88 - 12);
  EXPECT_EQ(align("WWWWWWWW", "WWWWAAAWWWW").score, 88 - 14);
  EXPECT_EQ(align("WWWWWWWW", "WWWWAAAWWWW").columns, 8u);
}

TEST(LocalAlignment, TheOrderOfTheTwoDoesNotMatter) {
  Maker maker(3);
  for (int i = 0; i < 50; ++i) {
    const std::string a = maker.sequence(1 + maker.below(80)), b = maker.changed(a + maker.sequence(20), 0.5);
    const LocalAlignment one = align(a, b), other = align(b, a);
    EXPECT_EQ(one.score, other.score);
    EXPECT_EQ(one.identities, other.identities);
    EXPECT_EQ(one.columns, other.columns);
  }
}

TEST(LocalAlignment, AnUnknownResidueIsIdenticalToNothing) {
  const LocalAlignment found = align("WWXWW", "WWXWW");
  EXPECT_EQ(found.score, 43);
  EXPECT_EQ(found.identities, 4u);
  EXPECT_EQ(found.columns, 5u);
  EXPECT_EQ(align("XXXXXXXX", "XXXXXXXX").score, 0);
  EXPECT_EQ(align("UOBZJ*-1", "UOBZJ*-1").score, 0);
}

TEST(LocalAlignment, NothingAlignsWithAnEmptySequence) {
  EXPECT_EQ(align("", "").score, 0);
  EXPECT_EQ(align("WWW", "").columns, 0u);
  EXPECT_EQ(align("", "WWW").columns, 0u);
}

TEST(Letters, CaseDoesNotMatter) {
  EXPECT_EQ(encode_letters("acdefghiklmnpqrstvwyx"), encode_letters("ACDEFGHIKLMNPQRSTVWYX"));
}

// E = 0.041 m n exp(-0.267 score), by hand: ln(0.041 100 100 / 0.001) / 0.267 = 48.4.
TEST(SignificantScore, FollowsKarlinAndAltschul) {
  EXPECT_EQ(significant_score(100, 100, 1, 1e-3), 49);
  EXPECT_EQ(significant_score(100, 100, 1000, 1e-3), 75);
  EXPECT_EQ(significant_score(1, 1, 1, 1), 1);
  EXPECT_EQ(significant_score(0, 100, 1, 1e-3), 1);
}

}  // namespace
}  // namespace pipeline::clusters
