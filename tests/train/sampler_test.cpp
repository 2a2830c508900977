#include "core/train/data/sampler.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "tests/train/batch_plans.hpp"

namespace pipeline::train {
namespace {

TEST(Permutation, VisitsEveryElementOnce) {
  for (const uint64_t size : {1u, 2u, 3u, 10u, 100u, 1023u, 1024u, 1025u}) {
    const Permutation order(size, 7);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(order(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

// The order is part of every result: these values never change.
TEST(Permutation, GoldenOrder) {
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 10; ++i) order.push_back(Permutation(10, 42)(i));
  EXPECT_THAT(order, testing::ElementsAre(4, 7, 0, 2, 5, 8, 6, 9, 3, 1));
}

TEST(Permutation, PlacesAreEvenlySpreadOverKeys) {
  constexpr uint64_t kSize = 10, kKeys = 20000;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> counts;
  for (uint64_t key = 0; key < kKeys; ++key)
    for (uint64_t i = 0; i < kSize; ++i) ++counts[{i, Permutation(kSize, key)(i)}];
  // Each of the 100 cells expects 2000; their standard deviation is sqrt(2000 x 0.9), about 42.
  EXPECT_EQ(counts.size(), kSize * kSize);
  for (const auto& [cell, count] : counts)
    EXPECT_NEAR(static_cast<double>(count), 2000, 250) << cell.first << "->" << cell.second;
}

Sampler make(uint64_t samples, uint64_t global, uint64_t micro, bool grouped = false) {
  Sampler::Options options{.samples = samples, .seed = 3, .shuffle = true, .costs = {}, .window_steps = 4};
  if (grouped)
    options.costs = [](std::span<const uint64_t> ids, std::span<double> out) {
      for (size_t i = 0; i < ids.size(); ++i) out[i] = static_cast<double>(ids[i] % 100);
    };
  return {plan_of({.global_batch = global, .micro_batch = micro}), options};
}

class SamplerEpoch : public testing::TestWithParam<bool> {};

TEST_P(SamplerEpoch, SeesEverySampleOnceAndItsLastStepTakesTheRest) {
  Sampler sampler = make(103, 16, 4, GetParam());
  ASSERT_EQ(sampler.steps_per_epoch(), 7u);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::multiset<uint64_t> seen;
    for (uint64_t step = 0; step < 7; ++step) {
      uint64_t in_step = 0;
      for (uint64_t m = 0; m < 4; ++m)
        for (const uint64_t id : sampler.micro_batch(epoch * 7 + step, m)) seen.insert(id), ++in_step;
      EXPECT_EQ(in_step, sampler.samples_in(epoch * 7 + step));
      EXPECT_EQ(in_step, step == 6 ? 7u : 16u);
    }
    EXPECT_EQ(seen.size(), 103u);
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), 103u);
  }
}

TEST_P(SamplerEpoch, IsAPureFunctionOfTheStep) {
  Sampler forward = make(103, 16, 4, GetParam()), backward = make(103, 16, 4, GetParam());
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint64_t>> first;
  for (uint64_t step = 0; step < 20; ++step)
    for (uint64_t m = 0; m < 4; ++m) first[{step, m}] = forward.micro_batch(step, m);
  for (uint64_t step = 20; step-- > 0;)
    for (uint64_t m = 4; m-- > 0;) EXPECT_EQ(backward.micro_batch(step, m), (first[{step, m}]));
  EXPECT_NE((first[{0, 0}]), (first[{7, 0}])) << "the next epoch has another order";
}

TEST_P(SamplerEpoch, TheSameSamplesFormAStepWhateverTheMicroBatch) {
  Sampler fine = make(103, 16, 2, GetParam()), coarse = make(103, 16, 8, GetParam());
  for (uint64_t step = 0; step < 7; ++step) {
    std::vector<uint64_t> a, b;
    for (uint64_t m = 0; m < 8; ++m)
      for (const uint64_t id : fine.micro_batch(step, m)) a.push_back(id);
    for (uint64_t m = 0; m < 2; ++m)
      for (const uint64_t id : coarse.micro_batch(step, m)) b.push_back(id);
    EXPECT_EQ(a, b);
  }
}

INSTANTIATE_TEST_SUITE_P(PlainAndGrouped, SamplerEpoch, testing::Bool());

TEST(Sampler, GroupingBringsSimilarCostsTogether) {
  const auto spread = [](Sampler sampler) {
    double total = 0;
    for (uint64_t step = 0; step < sampler.steps_per_epoch(); ++step)
      for (uint64_t m = 0; m < 4; ++m) {
        const auto ids = sampler.micro_batch(step, m);
        if (ids.empty()) continue;
        const auto [low, high] = std::minmax_element(
            ids.begin(), ids.end(), [](uint64_t a, uint64_t b) { return a % 100 < b % 100; });
        total += static_cast<double>(*high % 100 - *low % 100);
      }
    return total;
  };
  const double plain = spread(make(1000, 32, 8)), grouped = spread(make(1000, 32, 8, true));
  EXPECT_LT(grouped, plain / 4);
}

TEST(Sampler, WithoutShuffleTheOrderIsTheData) {
  Sampler sampler(plan_of({.global_batch = 4, .micro_batch = 2}),
                  {.samples = 10, .seed = 1, .shuffle = false, .costs = {}});
  EXPECT_THAT(sampler.micro_batch(0, 0), testing::ElementsAre(0, 1));
  EXPECT_THAT(sampler.micro_batch(2, 0), testing::ElementsAre(8, 9));
  EXPECT_THAT(sampler.micro_batch(2, 1), testing::IsEmpty());
}

TEST(CostliestMicroBatches, AreThoseWithTheLargestSumsInTheStepsThatAreAskedFor) {
  for (const bool grouped : {false, true}) {
    Sampler sampler = make(103, 16, 4, grouped);
    const Sampler::CostFunction costs = [](std::span<const uint64_t> ids, std::span<double> out) {
      std::ranges::copy(ids, out.begin());
    };
    const std::vector<uint64_t> mine{1, 3};
    std::vector<double> sums;  // of the steps 2 to 6, the last of which lacks micro-batches
    for (uint64_t step = 2; step < 7; ++step)
      for (const uint64_t m : mine) {
        const auto ids = sampler.micro_batch(step, m);
        sums.push_back(std::accumulate(ids.begin(), ids.end(), 0.0));
      }
    std::ranges::sort(sums, std::greater());
    const auto found = costliest_micro_batches(sampler, costs, 2, 7, mine, 3);
    ASSERT_EQ(found.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].cost, sums[i]) << i;
      const auto ids = sampler.micro_batch(found[i].step, found[i].index);
      EXPECT_EQ(std::accumulate(ids.begin(), ids.end(), 0.0), sums[i]) << i;
    }
    EXPECT_TRUE(costliest_micro_batches(sampler, costs, 7, 7, mine, 3).empty());
  }
}

}  // namespace
}  // namespace pipeline::train
