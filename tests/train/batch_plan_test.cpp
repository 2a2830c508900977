#include "core/train/data/batch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/train/batch_plans.hpp"

namespace pipeline::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_EQ(plan_of({}).global_batch, 32u);
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
            "and it is 50: use "
            "train.global_batch = 48 or 54");
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
            "train.micro_batch = 5 or 10, or "
            "train.global_batch = 16 or 24");
  EXPECT_EQ(problem_of({.global_batch = 12}),
            "train.global_batch: the global batch of 12 is not a multiple of the micro-batch of 8 (the "
            "default): use train.micro_batch = 6 or "
            "12, or train.global_batch = 8 or 16");
}

TEST(BatchPlan, FewerMicroBatchesThanRanksIsAnError) {
  EXPECT_EQ(problem_of({.global_batch = 16, .micro_batch = 8, .world_size = 4}),
            "train.global_batch: 16 samples in micro-batches of 8 are 2 for 4 devices, and each needs at "
            "least one: use train.micro_batch = "
            "4, or train.global_batch = 32 or more");
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
