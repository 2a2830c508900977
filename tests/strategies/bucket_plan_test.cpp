// How gradients are put into buckets, and when they are taken for complete.

#include <gtest/gtest.h>

#include "plugins/strategies/ddp/buckets.hpp"

namespace pipeline::strategies {
namespace {

std::vector<Parameter> parameters(std::vector<int64_t> counts) {
  std::vector<Parameter> result;
  for (const int64_t count : counts) {
    result.push_back({std::to_string(result.size()), {count}, true, result.size() % 2 == 0, 0, 1});
  }
  return result;
}

std::vector<Bucket> plan(const Layout& layout, const BucketSizes& sizes) {
  return make_buckets(layout, sizes, expected_order(layout));
}

// "3 2+1" as the parameters of each bucket; a piece of one as "0[4096:8192]".
std::string describe(const std::vector<Bucket>& buckets, const Layout& layout) {
  std::string text;
  for (const Bucket& bucket : buckets) {
    if (!text.empty()) text += ' ';
    int64_t count = 0;
    for (const BucketPart& part : bucket.parts) {
      if (count > 0) text += '+';
      const Slot& slot = layout.slots()[part.slot];
      text += std::to_string(slot.parameter);
      if (part.count != slot.padded) {
        text += '[' + std::to_string(part.begin) + ':' + std::to_string(part.begin + part.count) + ']';
      }
      count += part.count;
    }
    EXPECT_EQ(count, bucket.count);
    if (bucket.in_place) text += '!';
  }
  return text;
}

TEST(BucketPlan, GoesBackwardsAndFillsBuckets) {
  const Layout layout(parameters({100, 200, 300, 400, 500}));
  // 500 is padded to 512.
  EXPECT_EQ(describe(plan(layout, {.first = 512, .most = 800, .in_place = 10000}), layout), "4 3+2 1+0");
  EXPECT_EQ(describe(plan(layout, {.first = 100, .most = 10000, .in_place = 10000}), layout), "4 3+2+1+0");
}

TEST(BucketPlan, LargeGradientsStayWhereTheyAreAndAreCut) {
  const Layout layout(parameters({9000, 50, 4000, 60, 5000}));
  EXPECT_EQ(describe(plan(layout, {.first = 512, .most = 4096, .in_place = 3000}), layout),
            "4[0:4096]! 4[4096:5008]! 2! 0[0:4096]! 0[4096:8192]! 0[8192:9008]! 3+1");
}

TEST(BucketPlan, LeavesOutWhatIsFrozenOrEmpty) {
  std::vector<Parameter> some = parameters({100, 0, 300});
  some[0].trainable = false;
  const Layout layout(some);
  EXPECT_EQ(describe(plan(layout, {.first = 512, .most = 4096, .in_place = 4096}), layout), "2");
  EXPECT_TRUE(plan(Layout({}), {.first = 512, .most = 4096, .in_place = 4096}).empty());
}

TEST(BucketPlan, FollowsTheOrderThatItIsGiven) {
  const Layout layout(parameters({400, 300, 200, 100}));
  const BucketSizes sizes{.first = 512, .most = 800, .in_place = 10000};
  std::vector<size_t> order = expected_order(layout);
  std::ranges::reverse(order);
  EXPECT_EQ(describe(make_buckets(layout, sizes, order), layout), "0 1+2+3");
}

TEST(Arrivals, ExpectWhatTheMicroBatchBeforeDid) {
  Arrivals arrivals(3);
  EXPECT_FALSE(arrivals.arrived(0));  // nothing is known yet
  EXPECT_FALSE(arrivals.none_expected(1));
  arrivals.end_micro_batch();
  EXPECT_TRUE(arrivals.arrived(0));
  EXPECT_TRUE(arrivals.none_expected(1));
  EXPECT_FALSE(arrivals.arrived(1));  // a surprise, which is late
  arrivals.end_micro_batch();
  EXPECT_TRUE(arrivals.arrived(1));
}

TEST(Arrivals, ExpectAsManyContributionsAsTheMicroBatchBeforeBrought) {
  Arrivals arrivals(1);
  for (int i = 0; i < 2; ++i) arrivals.arrived(0);
  arrivals.end_micro_batch();
  EXPECT_FALSE(arrivals.arrived(0));
  EXPECT_TRUE(arrivals.arrived(0));
}

TEST(Arrivals, AMicroBatchThatWasGivenUpTeachesNothing) {
  Arrivals arrivals(1);
  arrivals.arrived(0);
  arrivals.end_micro_batch();
  arrivals.arrived(0);
  arrivals.forget_micro_batch();
  EXPECT_TRUE(arrivals.arrived(0));
}

}  // namespace
}  // namespace pipeline::strategies
