// `ddp` in reproducible mode: the bits of `single`, on any number of ranks.
#include <cmath>

#include <gmock/gmock.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

// Small buckets, so that the arena is exchanged in several ranges.
const std::vector<std::string> kSmall{"strategy.bucket_mib=0.05", "strategy.first_bucket_mib=0.02"};

void expect_same_bits(const Job& job, at::ScalarType dtype = at::kFloat) {
  const Outcome single = run_job(job, 1, {.reproducible = true, .dtype = dtype});
  for (const int ranks : {1, 2, 3, 4}) {
    EXPECT_TRUE(run_job(job, ranks,
                        {.plugin = "ddp", .reproducible = true, .dtype = dtype, .sets = kSmall}) == single)
        << ranks << " ranks";
  }
}

TEST(DdpBits, AreThoseOfSingleForEveryNumberOfMicroBatches) {
  for (const uint64_t micro_batches : {4, 5, 6, 7, 8, 11, 13}) {
    SCOPED_TRACE(micro_batches);
    Job job = difficult_job(micro_batches);
    job.steps = 4;
    expect_same_bits(job);
  }
}

TEST(DdpBits, StayThoseOfSingleOverManySteps) {
  Job job = difficult_job(6);
  job.steps = 40;
  expect_same_bits(job);
}

TEST(DdpBits, AreThoseOfSingleForEveryOptimizer) {
  for (const plugins::Optimizer& optimizer : {adamw(0), sgd(), sgd(0.9, 0.1), sgd(0.9, 0.1, true)}) {
    Job job = difficult_job(5, optimizer);
    job.clip_norm = 0;
    job.inverse_scale = 1.0 / 1024;
    expect_same_bits(job);
  }
}

TEST(DdpBits, AreThoseOfSingleWithNarrowParameters) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    Job job = difficult_job(5);
    job.batch = [batch = job.batch, dtype](uint64_t step) {
      std::vector<MicroBatch> micro_batches = batch(step);
      for (MicroBatch& one : micro_batches) {
        for (Gradients* gradients : {&one.gradients, &one.again}) {
          for (at::Tensor& gradient : *gradients) {
            if (gradient.defined()) gradient = gradient.to(dtype);
          }
        }
      }
      return micro_batches;
    };
    expect_same_bits(job, dtype);
  }
}

// -0 is what an absent gradient travels as: it must not show in a sum that is -0, nor in one that is +0.
TEST(DdpBits, KeepTheSignOfZero) {
  Job job;
  job.specs = {{"w", {4096}}, {"v", {33}}};
  job.optimizer = sgd(0.9);
  job.steps = 3;
  job.batch = [](uint64_t step) {
    std::vector<MicroBatch> batch;
    for (uint64_t m = 0; m < 5; ++m) {
      MicroBatch one{.gradients = {at::full({4096}, m % 2 == 0 ? -0.0 : 0.0), at::full({33}, -0.0)},
                     .loss = at::scalar_tensor(-0.0)};
      if (m == step) one.gradients[0] = at::Tensor();
      if (m != 3) one.gradients[1] = at::Tensor();
      batch.push_back(one);
    }
    return batch;
  };
  const Outcome single = run_job(job, 1, {.reproducible = true});
  for (const int ranks : {2, 3, 4}) {
    const Outcome ddp = run_job(job, ranks, {.plugin = "ddp", .reproducible = true});
    EXPECT_EQ(ddp.state, single.state) << ranks;  // bytes
    for (const double loss : ddp.losses) EXPECT_TRUE(std::signbit(loss));
  }
}

TEST(DdpBits, AGradientThatIsNotFiniteSkipsTheStepEverywhere) {
  Job job = difficult_job(5);
  job.batch = [batch = job.batch](uint64_t step) {
    std::vector<MicroBatch> micro_batches = batch(step);
    if (step != 2 && step != 5) return micro_batches;
    at::Tensor& gradient = micro_batches[step == 2 ? 3 : 0].gradients[3];  // step 5 is short
    gradient = gradient.clone();
    if (step == 2) gradient[5][5] = NAN;
    if (step == 5) gradient[1][1] = -INFINITY;
    return micro_batches;
  };
  for (const bool reproducible : {false, true}) {
    for (const int ranks : {1, 2, 3}) {
      const Outcome ddp =
          run_job(job, ranks, {.plugin = "ddp", .reproducible = reproducible, .sets = kSmall});
      EXPECT_THAT(ddp.finite, testing::ElementsAre(1, 1, 0, 1, 1, 0, 1, 1, 1, 1));
    }
  }
}

TEST(DdpBits, NarrowReductionIsRefused) {
  try {
    StrategyRun run({{"w", {16}}}, sgd(),
                    {.plugin = "ddp", .reproducible = true, .sets = {"strategy.reduction=\"bf16\""}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("reduction"));
    EXPECT_THAT(error.what(), testing::HasSubstr("use \"fp32\""));
    EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
  }
}

}  // namespace
}  // namespace pipeline::strategies
