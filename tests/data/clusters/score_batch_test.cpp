#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugins/data/clusters/local_alignment.hpp"
#include "tests/data/clusters/sequences.hpp"

namespace pipeline::clusters {
namespace {

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

}  // namespace
}  // namespace pipeline::clusters
