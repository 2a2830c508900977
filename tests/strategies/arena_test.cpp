// The flat arena's layout, and the gradient norm over it.
#include <cmath>

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "plugins/strategies/common/arena.hpp"
#include "plugins/strategies/common/gradient_norm.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/ddp/buckets.hpp"

namespace pipeline::strategies {
namespace {

Parameter parameter(std::string name, std::vector<int64_t> shape, bool decay, double lr_multiplier = 1,
                    bool trainable = true) {
  return {
      std::move(name), std::move(shape), trainable, decay, 0, lr_multiplier, /*optimizer=*/decay ? 0u : 1u};
}

const std::vector<Parameter> kMixed{parameter("w0", {100, 50}, true),
                                    parameter("b0", {7}, false),
                                    parameter("frozen", {33}, true, 1, false),
                                    parameter("w1", {16}, true),
                                    parameter("b1", {1}, false),
                                    parameter("head", {3, 3}, true, 0.1),
                                    parameter("nothing", {0, 5}, false),
                                    parameter("scalar", {}, false)};

TEST(Layout, GroupsAreContiguousAndEverythingIsAligned) {
  const Layout layout(kMixed);
  ASSERT_EQ(layout.groups().size(), 3u);
  std::vector<std::vector<size_t>> members;
  for (const Group& group : layout.groups()) {
    EXPECT_EQ(layout.slots()[group.first_slot].offset % kChunk, 0);
    members.emplace_back();
    for (size_t i = 0; i < group.slot_count; ++i)
      members.back().push_back(layout.slots()[group.first_slot + i].parameter);
  }
  EXPECT_THAT(members, testing::ElementsAre(testing::ElementsAre(0, 3), testing::ElementsAre(1, 4, 6, 7),
                                            testing::ElementsAre(5)));
  EXPECT_EQ(layout.groups()[2].lr_multiplier, 0.1);
  int64_t end = 0;
  for (const Slot& slot : layout.slots()) {
    EXPECT_GE(slot.offset, end);
    EXPECT_EQ(slot.offset % kAlignment, 0);
    EXPECT_EQ(slot.padded % kRun, 0);
    EXPECT_EQ(slot.count, static_cast<int64_t>(kMixed[slot.parameter].count()));
    EXPECT_EQ(&layout.slot_of(slot.parameter), &slot);
    end = slot.offset + slot.padded;
  }
  EXPECT_EQ(layout.trainable_slots(), 7u);
  EXPECT_EQ(layout.trainable_length() % kChunk, 0);
  EXPECT_EQ(layout.length() % kChunk, 0);
  EXPECT_GE(layout.slot_of(2).offset, layout.trainable_length());
}

TEST(Layout, UnitsAreContiguousAtAnyAlignmentAndGroupsKeepTheirChunks) {
  std::vector<Parameter> parameters = kMixed;
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].unit = static_cast<uint32_t>(10 - i % 3);
  const Layout layout(parameters), wide(parameters, 3 * kChunk);
  ASSERT_EQ(layout.regions().size(), 4u);  // three units, one of them with a frozen parameter
  for (const Layout* each : {&layout, &wide}) {
    int64_t end = 0;
    for (const Region& region : each->regions()) {
      EXPECT_EQ(region.begin, end);
      EXPECT_EQ(region.begin % (each == &wide ? 3 * kChunk : kChunk), 0);
      end = region.end;
    }
    EXPECT_EQ(end, each->length());
    EXPECT_EQ(each->regions()[0].unit, 8u);
    EXPECT_EQ(each->regions()[3].unit, 8u);
    EXPECT_EQ(each->regions()[3].begin, each->trainable_length());
  }
  // What the norm adds up at a time has the same elements, whatever lies between.
  for (size_t i = 0; i < layout.slots().size(); ++i) {
    EXPECT_EQ(layout.slots()[i].parameter, wide.slots()[i].parameter);
    EXPECT_EQ(layout.slots()[i].offset % kChunk, wide.slots()[i].offset % kChunk);
  }
  for (const Group& group : layout.groups()) {
    EXPECT_EQ(group.begin, layout.slots()[group.first_slot].offset);
    EXPECT_EQ(group.begin % kChunk, 0);
    EXPECT_EQ(group.end % kChunk, 0);
  }
}

TEST(Layout, MayBeEmpty) {
  const Layout layout({});
  EXPECT_EQ(layout.length(), 0);
  EXPECT_TRUE(layout.groups().empty());
}

// Runs of random numbers that fill an arena of some chunks, with gaps, and these as one flat tensor.
struct Gradients {
  explicit Gradients(std::vector<int64_t> lengths) {
    at::manual_seed(5);
    int64_t offset = 0;
    for (const int64_t length : lengths) {
      runs.push_back({offset, at::randn({length}, at::kFloat)});
      offset += round_up(length, kAlignment) + kAlignment;
    }
    end = round_up(offset, kChunk);
    flat = at::zeros({end}, at::kFloat);
    for (const GradientRun& run : runs) flat.narrow(0, run.offset, run.gradient.numel()).copy_(run.gradient);
  }
  GradientRuns runs;
  at::Tensor flat;
  int64_t end = 0;
};

Gradients some_gradients() { return Gradients({16, 5008, 48, 9600, 4096, 160, 123456, 16}); }

TEST(GradientNorm, IsTheSumOfSquares) {
  const Gradients g = some_gradients();
  const double expected = g.flat.to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(in_order_sum(chunk_sums(g.runs, 0, g.end, at::kCPU)).item<double>(), expected,
              expected * 1e-14);
  EXPECT_NEAR(sum_of_squares(g.runs, at::kCPU).item<double>(), expected, expected * 1e-6);
  EXPECT_EQ(sum_of_squares({}, at::kCPU).item<double>(), 0);
}

TEST(GradientNorm, ChunksDoNotDependOnRunsShardsOrThreads) {
  const Gradients g = some_gradients();
  const at::Tensor whole = chunk_sums(g.runs, 0, g.end, at::kCPU);
  EXPECT_TRUE(chunk_sums({{0, g.flat}}, 0, g.end, at::kCPU).equal(whole));
  for (const int64_t cut : {kChunk, 3 * kChunk, g.end - kChunk}) {
    const at::Tensor flat_left = g.flat.narrow(0, 0, cut);
    const at::Tensor left = chunk_sums({{0, flat_left}}, 0, cut, at::kCPU);
    const at::Tensor right = chunk_sums(g.runs, cut, g.end, at::kCPU);
    EXPECT_TRUE(at::cat({left, right}).equal(whole)) << cut;
  }
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    EXPECT_TRUE(chunk_sums(g.runs, 0, g.end, at::kCPU).equal(whole)) << count;
  }
  at::set_num_threads(threads);
}

TEST(GradientNorm, SeesWhatIsNotFinite) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Gradients g = some_gradients();
    g.runs[3].gradient[77] = bad;
    EXPECT_FALSE(std::isfinite(in_order_sum(chunk_sums(g.runs, 0, g.end, at::kCPU)).item<double>()));
  }
  // The square of the largest float is no infinity in double.
  Gradients g = some_gradients();
  g.runs[3].gradient.fill_(3e38f);
  EXPECT_TRUE(std::isfinite(in_order_sum(chunk_sums(g.runs, 0, g.end, at::kCPU)).item<double>()));
}

// Devices add up by blocks, in another order: a chunk's bits depend on its elements alone there, too.
TEST(GradientNorm, ByBlocksAChunksBitsDependOnItsElementsAlone) {
  const int64_t chunks = 2 * kBlockChunks + 7, cut = (kBlockChunks + 300) * kChunk, end = chunks * kChunk;
  const at::Tensor flat = at::sin(at::arange(end, at::kDouble) * 0.37).mul_(3).to(at::kFloat);
  const at::Tensor whole = chunk_sums_by_blocks({{0, flat}}, 0, end, at::kCPU);
  EXPECT_TRUE(whole.allclose(chunk_sums({{0, flat}}, 0, end, at::kCPU), 1e-13));
  const int64_t uneven = cut + 3 * kRun;
  const GradientRuns runs{{0, flat.narrow(0, 0, uneven)}, {uneven, flat.narrow(0, uneven, end - uneven)}};
  EXPECT_TRUE(chunk_sums_by_blocks(runs, 0, end, at::kCPU).equal(whole));
  const at::Tensor left = chunk_sums_by_blocks(runs, 0, cut, at::kCPU),
                   right = chunk_sums_by_blocks(runs, cut, end, at::kCPU);
  EXPECT_TRUE(at::cat({left, right}).equal(whole));
  EXPECT_EQ(chunk_sums_by_blocks({}, 0, kChunk, at::kCPU).item<double>(), 0);
}

TEST(StagedCopy, IsWhatWasThereInPiecesOfAnySize) {
  for (const int64_t count : {0, 1, 999, 1000, 1001, 4096}) {
    const at::Tensor values = at::arange(count, at::kFloat).sin();
    EXPECT_TRUE(staged_copy(values, 1000).equal(values)) << count;
    const at::Tensor narrow = values.to(at::kBFloat16);
    EXPECT_TRUE(staged_copy(narrow, 1000).equal(narrow.to(at::kFloat))) << count;
    const at::Tensor bytes = at::arange(count, at::kLong).to(at::kByte);
    EXPECT_TRUE(staged_copy(bytes, 1000).equal(bytes)) << count;
  }
}

// How gradients are put into buckets, and when they are taken for complete.

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
