// What is planned from measured figures and from a table of devices.
#include <cstdlib>
#include <vector>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/train/plan/plan.hpp"
#include "core/train/session/session.hpp"
#include "core/train/stages/found_micro_batch.hpp"
#include "tests/train/batch_plans.hpp"

namespace pipeline::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BatchPlan batch_of(uint64_t global, uint64_t micro, uint64_t processes) {
  return {
      .global_batch = global, .micro_batch = micro, .micro_batches = global / micro, .world_size = processes};
}

TEST(LargestMicroBatch, IsTheLargestDivisorThatFits) {
  PlannedMemory memory;
  memory.base = 100;
  memory.strategy = {.parameters = 40, .gradients = 20, .optimizer = 30, .buffers = 10};
  memory.activations = 50;  // 10 whatever the size, and 5 for each of 8 samples
  const BatchPlan batch = batch_of(96, 8, 2);
  EXPECT_EQ(memory.peak(), 250u);
  EXPECT_EQ(largest_micro_batch(memory, batch, 5, 250), 8u);
  EXPECT_EQ(largest_micro_batch(memory, batch, 5, 249), 6u) << "7 does not divide 96";
  EXPECT_EQ(largest_micro_batch(memory, batch, 5, 215), 1u);
  EXPECT_EQ(largest_micro_batch(memory, batch, 5, 214), std::nullopt);
  EXPECT_EQ(largest_micro_batch(memory, batch, 5, 1 << 30), 48u) << "each process needs one";
}

TEST(DeviceFigures, AreFoundByNameHoweverItIsWritten) {
  EXPECT_EQ(device_figures("rtx4090").name, "RTX 4090");
  EXPECT_EQ(device_figures("A100-80gb").is.memory, uint64_t{80} << 30);
  try {
    device_figures("A100");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
    EXPECT_THAT(error.what(), HasSubstr("--device A100: there are no figures of such a device: use one of"));
    EXPECT_THAT(error.what(), HasSubstr("A100 40GB, A100 80GB"));
  }
}

config::Config with(std::vector<std::string> sets) {
  sets.emplace_back("task.plugin=zoo");
  return config::load({.file = {}, .sets = std::move(sets), .stage = {}});
}

TEST(ComputeThreads, AreTheCoresSharedUnlessTheConfigurationSaysMore) {
  launch::Devices devices;
  devices.cores = 12;
  EXPECT_EQ(compute_threads(with({}), devices, 5, false), 2u);
  EXPECT_EQ(compute_threads(with({}), devices, 50, false), 1u);
  EXPECT_EQ(compute_threads(with({"run.reproducible=true"}), devices, 1, false), 1u);
  EXPECT_EQ(compute_threads(with({"run.reproducible=true"}), devices, 1, true), 12u);
  EXPECT_EQ(compute_threads(with({"run.reproducible=true", "launch.threads=7"}), devices, 2, false), 7u);
}

TEST(Environment, TellsLibrariesTheThreadsAndKeepsWhatTheUserSaid) {
  ::setenv("OMP_NUM_THREADS", "64", 1);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  set_environment(with({"run.reproducible=true", "launch.threads=3"}), 1);
  EXPECT_STREQ(std::getenv("OMP_NUM_THREADS"), "3");
  EXPECT_STREQ(std::getenv("MKL_NUM_THREADS"), "3");
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
  EXPECT_STREQ(std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
  EXPECT_STREQ(std::getenv("PYTORCH_ALLOC_CONF"), "expandable_segments:True");
}

// Tests which micro-batch is tried next, from what the last one took on each rank.

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
