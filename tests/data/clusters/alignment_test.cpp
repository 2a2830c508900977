#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "plugins/data/clusters/local_alignment.hpp"
#include "plugins/data/clusters/sequence_set.hpp"
#include "tests/data/clusters/sequences.hpp"

namespace pipeline::clusters {
namespace {

using testing::ElementsAre;

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

void expect_scores_of_align_locally(ScoreBatch& batch, const std::vector<Letters>& targets,
                                    const Letters& query) {
  batch.set_targets(std::vector<LetterView>(targets.begin(), targets.end()));
  const ScoreBatch::Scores scores = batch.scores(query);
  for (size_t lane = 0; lane < ScoreBatch::kLanes; ++lane) {
    EXPECT_EQ(scores[lane], lane < targets.size() ? align_locally(query, targets[lane]).score : 0)
        << "lane " << lane;
  }
}

TEST(ScoreBatch, ScoresRandomAndRelatedPairsAsAlignLocallyDoes) {
  Maker maker(1);
  ScoreBatch batch;
  for (int round = 0; round < 40; ++round) {
    const std::string query = maker.sequence(maker.below(120));
    std::vector<Letters> targets;
    for (size_t i = 0, count = 1 + maker.below(16); i < count; ++i) {
      const double identity = 0.2 + 0.8 * static_cast<double>(i) / 16;
      targets.push_back(encode_letters(maker.happens(0.5) ? maker.changed(query, identity)
                                                          : maker.sequence(maker.below(150))));
    }
    expect_scores_of_align_locally(batch, targets, encode_letters(query));
  }
}

TEST(ScoreBatch, UnknownResiduesScoreAsInAlignLocally) {
  ScoreBatch batch;
  const std::vector<Letters> targets{encode_letters("WWXWW"), encode_letters("XXXX"),
                                     encode_letters("AXXXXXXXXWWWWWW")};
  expect_scores_of_align_locally(batch, targets, encode_letters("WWXWWXXWW"));
}

TEST(ScoreBatch, ScoresBeyond16BitsAreRight) {
  Maker maker(2);
  ScoreBatch batch;
  const std::string query = std::string(3200, 'W');
  const std::vector<Letters> targets{
      encode_letters(query), encode_letters(maker.changed(query, 0.95)), encode_letters("WWW"), {}};
  expect_scores_of_align_locally(batch, targets, encode_letters(query));
  EXPECT_EQ(batch.scores(encode_letters(query))[0], 35200);
  expect_scores_of_align_locally(batch, {encode_letters("WWW")},
                                 encode_letters("AWWWA"));  // and 16 bits again
}

TEST(ScoreBatch, NoTargetsAndNoQueryScoreNothing) {
  ScoreBatch batch;
  expect_scores_of_align_locally(batch, {}, encode_letters("WWW"));
  expect_scores_of_align_locally(batch, {encode_letters("WWW"), {}}, {});
}

// Peptides too short for any alignment of theirs to mean something.

TEST(ShortSequences, EqualOnesAreTogether) {
  EXPECT_THAT(clusters_of({"A", "GG", "A", "", "gg", ""}), ElementsAre(0, 1, 0, 2, 1, 2));
}

TEST(ShortSequences, ThoseThatAreContainedJoinWhatContainsThem) {
  Maker maker(1);
  for (const size_t exact_up_to : {3000, 0}) {
    std::string protein = maker.sequence(200);
    for (size_t length = 1; length <= 40; ++length) {
      EXPECT_THAT(clusters_of({protein, protein.substr(77, length)}, {.exact_up_to = exact_up_to}),
                  ElementsAre(0, 0))
          << length;
    }
  }
}

TEST(ShortSequences, DoNotJoinTheProteinsThatContainThem) {
  Maker maker(2);
  const std::string one = maker.sequence(100) + "SLAKE" + maker.sequence(100),
                    other = maker.sequence(100) + "SLAKE" + maker.sequence(90);
  EXPECT_THAT(clusters_of({"SLAKE", one, other}), ElementsAre(0, 0, 1));
  EXPECT_THAT(clusters_of({other, one, "SLAKE", "LAK"}), ElementsAre(0, 1, 0, 0));
}

TEST(ShortSequences, ThatNothingContainsAreAlone) {
  EXPECT_THAT(clusters_of({"SLAKE", "SLAKD", "XXX"}), ElementsAre(0, 1, 2));
}

TEST(FindContaining, GivesTheFirstLongerSequence) {
  std::vector<Letters> sequences;
  for (const char* text : {"AC", "GACG", "AC", "TTACT", "GACG", ""})
    sequences.push_back(encode_letters(text));
  const auto found = find_containing(sequences, {true, true, false, false, false, true});
  EXPECT_THAT(found, ElementsAre(1u, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt));
}

}  // namespace
}  // namespace pipeline::clusters
