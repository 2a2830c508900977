// Tests which micro-batch is tried next, from what the last one took on each rank.
#include "core/train/micro_batch_search.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "tests/train/batch_plans.hpp"

namespace pipeline::train {
namespace {

using testing::ElementsAre;

TEST(MicroBatchChoices, GiveEachDeviceAsMuch) {
  EXPECT_THAT(plan_of({.global_batch = 24}).micro_batch_choices(), ElementsAre(1, 2, 3, 4, 6, 8, 12, 24));
  EXPECT_THAT(plan_of({.global_batch = 24, .micro_batch = 1, .world_size = 2}).micro_batch_choices(),
              ElementsAre(1, 2, 3, 4, 6, 12))
      << "8 would be three for two devices";
  EXPECT_THAT(plan_of({.global_batch = 32, .micro_batch = 1, .world_size = 3}).micro_batch_choices(),
              ElementsAre(1, 2, 4, 8))
      << "as much is not possible";
}

TEST(NextMicroBatch, DoublesWhileItFitsAndThenTakesTheLargestThatDoes) {
  const std::vector<uint64_t> choices{1, 2, 3, 4, 6, 8, 12, 24};
  const auto next = [&](uint64_t measured, uint64_t limit) {
    const RankMemory rank{.limit = limit, .fixed = 100, .activations = 10 * measured};
    return next_micro_batch(choices, measured, {{rank}});
  };
  EXPECT_EQ(next(1, 1000), 2u);
  EXPECT_EQ(next(4, 1000), 8u);
  EXPECT_EQ(next(4, 179), 6u);
  EXPECT_EQ(next(4, 160), 6u);
  EXPECT_EQ(next(4, 159), std::nullopt);
  EXPECT_EQ(next(24, 1000), std::nullopt);
  const std::vector<uint64_t> far{1, 7, 49};
  EXPECT_EQ(next_micro_batch(far, 1, {{RankMemory{.limit = 1000, .fixed = 100, .activations = 10}}}), 7u);
}

TEST(NextMicroBatch, HasToFitOnEveryRank) {
  const std::vector<uint64_t> choices{1, 2, 4, 8};
  const std::vector<RankMemory> ranks{{.limit = 1000, .fixed = 100, .activations = 40},
                                      {.limit = 1000, .fixed = 700, .activations = 200}};
  EXPECT_EQ(next_micro_batch(choices, 4, ranks), std::nullopt);
  EXPECT_EQ(next_micro_batch(choices, 4, {&ranks[0], 1}), 8u);
}

}  // namespace
}  // namespace pipeline::train
