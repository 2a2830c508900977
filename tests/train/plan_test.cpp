// What is planned from measured figures and from a table of devices.
#include "core/train/plan/plan.hpp"

#include <gmock/gmock.h>

#include "core/base/error.hpp"

namespace pipeline::train {
namespace {

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

}  // namespace
}  // namespace pipeline::train
