// What counts as found.
#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "plugins/scores/recall/ranking.hpp"
#include "plugins/scores/recall/recall.hpp"

namespace pipeline::recall {
namespace {

TEST(Recall, OfPairsThatAreAlikeIsWhole) {
  const at::Tensor x = at::eye(20);
  const Retrieval retrieval =
      retrieve(x, x, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  for (const Recall& recall : {retrieval.texts, retrieval.pictures}) {
    EXPECT_EQ(recall.at[0], 1);
    EXPECT_EQ(recall.median_rank, 1);
    EXPECT_EQ(recall.asked, 20);
    EXPECT_EQ(recall.among, 20);
  }
}

TEST(Recall, OfAModelForWhichAllIsAlikeIsNothing) {
  const at::Tensor x = at::ones({20, 3});
  std::vector<int64_t> own(20);
  for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<int64_t>(i);
  const Retrieval retrieval = retrieve(x, x, own);
  EXPECT_EQ(retrieval.texts.at[2], 0);
  EXPECT_EQ(retrieval.pictures.at[2], 0);
}

// Two pictures, of which the first has three texts: the nearest of these counts, and each picture is there
// once.
TEST(Recall, CountsPicturesOnceAndAnyOfTheirTexts) {
  const at::Tensor pictures = at::tensor({1.0F, 0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F, 1.0F}).view({4, 2});
  const at::Tensor texts = at::tensor({0.1F, 0.9F, 0.8F, 0.0F, 0.0F, 0.7F, 0.0F, 0.5F}).view({4, 2});
  const Retrieval retrieval = retrieve(pictures, texts, {0, 0, 0, 1});
  EXPECT_EQ(retrieval.texts.asked, 2);
  EXPECT_EQ(retrieval.texts.among, 4);
  EXPECT_EQ(retrieval.texts.at[0], 0.5);  // the second picture's text is third, behind two of the first's
  EXPECT_EQ(retrieval.texts.at[1], 1);
  EXPECT_EQ(retrieval.pictures.asked, 4);
  EXPECT_EQ(retrieval.pictures.among, 2);
  EXPECT_EQ(retrieval.pictures.at[0], 0.5);  // texts 1 and 3
}

TEST(Recall, HasAnInterval) {
  Recall recall{.asked = 100, .among = 100};
  recall.at = {0.5, 1, 0};
  EXPECT_NEAR(recall.interval(0).first, 0.4038, 1e-4);
  EXPECT_NEAR(recall.interval(0).second, 0.5962, 1e-4);
  EXPECT_NEAR(recall.interval(1).first, 0.9630, 1e-4);
  EXPECT_NEAR(recall.interval(2).second, 0.0370, 1e-4);
}

TEST(CaptionRecall, CountsTheRightOnesInBothDirections) {
  const float right[] = {-1, -5, -9, -4, -1, -9, -7, -8, -3};
  EXPECT_EQ(recall_of(right, 3).captions, 1);
  EXPECT_EQ(recall_of(right, 3).pictures, 1);
  // Caption 0 is likely after any picture; what counts is by how much more.
  const float easy[] = {-1, -20, -1.5f, -10};
  EXPECT_EQ(recall_of(easy, 2).captions, 1);
  const float same[] = {-1, -1, -1, -1};
  EXPECT_EQ(recall_of(same, 2).captions, 0) << "a tie is no answer";
  EXPECT_EQ(recall_of(same, 2).pictures, 0);
  EXPECT_EQ(recall_of({}, 0).pictures, 0);
}

// By hand. The first query ranks documents 3, 0, 2, 1, of which 0 and 1 answer it, 1 the better; the second
// is document 0 itself, and documents 1 and 3, of which 3 answers it, are as near.
TEST(Ranking, IsJudgedByGrades) {
  const at::Tensor documents = at::tensor({0.8F, 1.0F, 0.1F, 0.0F, 0.5F, -1.0F, 0.9F, 0.0F}).view({4, 2});
  JudgedQueries judged{.queries = at::tensor({1.0F, 0.0F, 0.0F, 1.0F}).view({2, 2}),
                       .documents = documents,
                       .grades = {{{0, 1}, {1, 3}, {2, 0}}, {{3, 1}}},
                       .left_out = {-1, 0}};
  const RankingFigures figures = rank(judged);
  const double second = 1 / std::log2(3), fourth = 1 / std::log2(5);
  EXPECT_NEAR(figures.ndcg_10.value, ((second + 3 * fourth) / (3 + second) + second) / 2, 1e-9);
  EXPECT_NEAR(figures.mrr_10.value, (0.5 + 0.5) / 2, 1e-9);
  EXPECT_EQ(figures.recall[0].value, 0);
  EXPECT_EQ(figures.recall[1].value, 1);
  judged.grades.push_back({{2, 0}});
  judged.left_out.push_back(-1);
  judged.queries = at::cat({judged.queries, judged.queries.narrow(0, 0, 1)});
  EXPECT_EQ(rank(judged).ndcg_10.value, figures.ndcg_10.value) << "what nothing answers is no part of it";
}

// A model for which all is alike finds nothing among more than ten.
TEST(Ranking, OfWhatIsAlikeFindsNothing) {
  JudgedQueries judged{.queries = at::ones({3, 2}), .documents = at::ones({12, 2}), .grades = {}};
  for (int64_t query = 0; query < 3; ++query) judged.grades.push_back({{query, 1}});
  const RankingFigures figures = rank(judged);
  EXPECT_EQ(figures.ndcg_10.value, 0);
  EXPECT_EQ(figures.recall[2].value, 0);
  EXPECT_EQ(figures.recall[3].value, 1) << "at 100 there are no others";
}

TEST(Ranking, OfWhatIsNoNumberIsNone) {
  JudgedQueries judged{.queries = at::ones({2, 2}), .documents = at::ones({3, 2}), .grades = {}};
  for (int64_t query = 0; query < 2; ++query) judged.grades.push_back({{query, 1}});
  judged.queries.fill_(std::numeric_limits<float>::quiet_NaN());
  const RankingFigures figures = rank(judged);
  EXPECT_TRUE(std::isnan(figures.ndcg_10.value));
  EXPECT_TRUE(std::isnan(figures.mrr_10.value));
  EXPECT_TRUE(std::isnan(figures.recall[0].value));
}

}  // namespace
}  // namespace pipeline::recall
