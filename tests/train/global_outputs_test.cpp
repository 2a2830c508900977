// Where the outputs of a step's samples lie, and which collectives bring them together.
#include "core/train/global_outputs.hpp"

#include <gmock/gmock.h>

namespace pipeline::train {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(RowsOfStep, LieInTheOrderOfTheMicroBatches) {
  const std::vector<uint64_t> samples{4, 4, 0, 3};
  const RowsOfStep rows(samples, 6);  // the last two are empty
  EXPECT_EQ(rows.total(), 11u);
  EXPECT_EQ(rows.begin(0), 0u);
  EXPECT_EQ(rows.begin(1), 4u);
  EXPECT_EQ(rows.begin(3), 8u);
  EXPECT_EQ(rows.begin(5), 11u);
}

TEST(RowsOfStep, ABlockOfEachRankTakesOneTurn) {
  const std::vector<uint64_t> samples{2, 2, 2, 2, 1};
  const RowsOfStep rows(samples, 5);
  const auto turns = rows.turns(3, PL_ORDER_BLOCK);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_THAT(turns[0], ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 9)));
  // Four ranks: the last one has none.
  EXPECT_THAT(rows.turns(4, PL_ORDER_BLOCK)[0], ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 9), Pair(9, 9)));
}

TEST(RowsOfStep, RanksThatTakeTurnsTakeOneForEachMicroBatchOfARank) {
  const std::vector<uint64_t> samples{2, 2, 2, 2, 1};
  const RowsOfStep rows(samples, 5);
  EXPECT_THAT(rows.turns(2, PL_ORDER_INTERLEAVED),
              ElementsAre(ElementsAre(Pair(0, 2), Pair(2, 4)), ElementsAre(Pair(4, 6), Pair(6, 8)),
                          ElementsAre(Pair(8, 9), Pair(9, 9))));
}

}  // namespace
}  // namespace pipeline::train
