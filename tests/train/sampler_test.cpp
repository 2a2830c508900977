#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include <gmock/gmock.h>

#include "core/train/data/batch_plan.hpp"
#include "core/train/data/sampler.hpp"
#include "tests/train/batch_plans.hpp"

namespace pipeline::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

// "KEY: problem".
std::string problem_of(const Batches& given) {
  try {
    plan_of(given);
  } catch (const config::ConfigError& error) {
    return std::regex_replace(error.what(), std::regex("^--set ([a-z_.]+)=[0-9]+: "), "$1: ");
  }
  return "no error";
}

TEST(BatchPlan, TheClassicCase) {
  for (const uint64_t world : {1u, 2u}) {
    const BatchPlan plan = plan_of({.global_batch = 256, .micro_batch = 16, .world_size = world});
    EXPECT_EQ(plan.global_batch, 256u);
    EXPECT_EQ(plan.micro_batches, 16u);
    EXPECT_EQ(plan.accumulation_steps(), world == 1 ? 16u : 8u);
  }
}

TEST(BatchPlan, MicroBatchDefaultsToEightForEveryWorldSize) {
  for (const uint64_t world : {1u, 2u, 4u})
    EXPECT_EQ(plan_of({.global_batch = 64, .world_size = world}).micro_batch, 8u);
  EXPECT_EQ(plan_of({.global_batch = 6}).micro_batch, 6u);
  EXPECT_EQ(plan_of({.global_batch = 12}).micro_batch, 6u);
  EXPECT_EQ(plan_of({.batch_per_device = 12, .world_size = 2}).micro_batch, 6u);
  EXPECT_EQ(plan_of({}).global_batch, 32u);
}

TEST(BatchPlan, DefaultsGiveWayToTheNumberOfDevicesAndSaySo) {
  for (uint64_t world = 1; world <= 100; ++world) {
    SCOPED_TRACE(world);
    const BatchPlan plan = plan_of({.world_size = world});
    EXPECT_EQ(plan.global_batch, std::max<uint64_t>(world, 32));
    EXPECT_EQ(plan.micro_batches * plan.micro_batch, plan.global_batch);
    EXPECT_GE(plan.micro_batches, world);
    EXPECT_EQ(plan.gave_way.empty(), world <= 4);
  }
  EXPECT_EQ(plan_of({.world_size = 8}).micro_batch, 4u);
  EXPECT_EQ(plan_of({.world_size = 6}).micro_batch, 4u);
  EXPECT_EQ(plan_of({.world_size = 16}).micro_batch, 2u);
  EXPECT_EQ(plan_of({.global_batch = 48, .world_size = 16}).micro_batch, 3u);
  EXPECT_THAT(plan_of({.world_size = 8}).gave_way,
              HasSubstr("train.micro_batch is 4 here, so that each of 8 devices has one, and not the default "
                        "of 8; dropout and rounding depend on it"));
  EXPECT_THAT(plan_of({.world_size = 64}).gave_way,
              HasSubstr("train.global_batch is 64 here, one sample a device, and not the default of 32"));
}

TEST(BatchPlan, WhatIsGivenAndWhatMustGiveTheSameBitsDoesNotGiveWay) {
  EXPECT_EQ(problem_of({.micro_batch = 8, .world_size = 8}),
            "train.global_batch: 32 samples in micro-batches of 8 are 4 for 8 devices, and each needs at "
            "least one: use train.micro_batch = 4, or train.global_batch = 64 or more");
  EXPECT_EQ(problem_of({.world_size = 8, .reproducible = true}),
            "train.global_batch: 32 samples in micro-batches of 8 are 4 for 8 devices, and each needs at "
            "least one: use train.micro_batch = 4, or train.global_batch = 64 or more; with run.reproducible "
            "= true the default does not follow the devices, as another micro-batch gives other bits");
  EXPECT_THAT(problem_of({.world_size = 64, .reproducible = true}), HasSubstr("are 4 for 64 devices"));
  EXPECT_EQ(problem_of({.global_batch = 16, .world_size = 64}),
            "train.global_batch: 16 samples in micro-batches of 8 are 2 for 64 devices, and each needs at "
            "least one: use train.global_batch = 64 or more");
}

TEST(BatchPlan, AutoIsASmallOneUntilOneIsFound) {
  const auto plan = [](std::vector<std::string> sets, uint64_t world) {
    sets.insert(sets.end(), {"task.plugin=any", "run.name=any", "train.micro_batch=auto"});
    return BatchPlan::make(config::load({.file = "", .sets = sets, .stage = "", .find_plugins = {}}), world);
  };
  EXPECT_EQ(plan({"train.global_batch=60"}, 1).micro_batch, 6u);
  EXPECT_EQ(plan({"train.global_batch=64"}, 16).micro_batch, 4u);
  EXPECT_THROW(plan({"train.accumulation_steps=2"}, 1), config::ConfigError);
  EXPECT_THROW(plan({"train.global_batch=2"}, 4), config::ConfigError);
}

TEST(BatchPlan, AccumulationStepsGiveTheMicroBatch) {
  EXPECT_EQ(plan_of({.global_batch = 48, .accumulation_steps = 3, .world_size = 2}).micro_batch, 8u);
  EXPECT_EQ(problem_of({.global_batch = 50, .accumulation_steps = 3, .world_size = 2}),
            "train.accumulation_steps: 3 accumulation steps on 2 devices need a global batch that 6 divides, "
            "and it is 50: use train.global_batch = 48 or 54");
}

TEST(BatchPlan, BatchPerDeviceGrowsWithTheDevices) {
  EXPECT_EQ(plan_of({.batch_per_device = 16, .world_size = 4}).global_batch, 64u);
  EXPECT_THAT(problem_of({.batch_per_device = 16, .world_size = 4, .reproducible = true}),
              HasSubstr("run.reproducible"));
}

TEST(BatchPlan, ContradictionsNameTheKey) {
  EXPECT_THAT(problem_of({.global_batch = 8, .batch_per_device = 8}),
              HasSubstr("train.batch_per_device: is given together"));
  EXPECT_THAT(problem_of({.micro_batch = 8, .accumulation_steps = 2}),
              HasSubstr("train.accumulation_steps: is given together"));
}

TEST(BatchPlan, SizesThatDoNotDivideNameTheNearestThatDo) {
  EXPECT_EQ(problem_of({.global_batch = 20, .micro_batch = 8}),
            "train.micro_batch: the global batch of 20 is not a multiple of the micro-batch of 8: use "
            "train.micro_batch = 5 or 10, or train.global_batch = 16 or 24");
}

TEST(BatchPlan, FewerMicroBatchesThanRanksIsAnError) {
  EXPECT_EQ(problem_of({.global_batch = 16, .micro_batch = 8, .world_size = 4}),
            "train.global_batch: 16 samples in micro-batches of 8 are 2 for 4 devices, and each needs at "
            "least one: use train.micro_batch = 4, or train.global_batch = 32 or more");
}

TEST(BatchPlan, WhatItSaysOfItselfIsRightAlsoWhereTheDevicesDoNotDivideIt) {
  EXPECT_EQ(plan_of({.global_batch = 8, .micro_batch = 2, .world_size = 1}).describe(),
            "8 samples = micro-batch 2 x 4 accumulation steps x 1 device: 8 samples a device");
  EXPECT_EQ(plan_of({.global_batch = 8, .micro_batch = 4, .world_size = 2}).describe(),
            "8 samples = micro-batch 4 x 1 accumulation step x 2 devices: 4 samples a device");
  EXPECT_EQ(plan_of({.global_batch = 8, .micro_batch = 2, .world_size = 3}).describe(),
            "8 samples = 4 micro-batches of 2, at most 2 on each of 3 devices: 4 samples a device");
}

TEST(BatchPlan, RanksTakeBlocksOrTurns) {
  const BatchPlan plan = plan_of({.global_batch = 5, .micro_batch = 1, .world_size = 2});
  EXPECT_THAT(plan.micro_batches_of(0, PL_ORDER_BLOCK), ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.micro_batches_of(1, PL_ORDER_BLOCK), ElementsAre(3, 4, std::nullopt));
  EXPECT_THAT(plan.micro_batches_of(0, PL_ORDER_INTERLEAVED), ElementsAre(0, 2, 4));
  EXPECT_THAT(plan.micro_batches_of(1, PL_ORDER_INTERLEAVED), ElementsAre(1, 3, std::nullopt));
}

}  // namespace
}  // namespace pipeline::train
