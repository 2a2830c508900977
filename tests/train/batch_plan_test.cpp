#include "core/train/data/batch_plan.hpp"

#include <gmock/gmock.h>

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
