// `sharded` in reproducible mode: the bits of `single`, in every stage and on any number of ranks.

#include <gtest/gtest.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

// Buckets are small, so that there are many.
RunOptions sharded(int stage, at::ScalarType dtype) {
  return {.plugin = "sharded",
          .reproducible = true,
          .dtype = dtype,
          .sets = {"strategy.zero_stage=" + std::to_string(stage), "strategy.bucket_mib=0.05"}};
}

struct Way {
  int stage;
  int ranks;
};
const std::vector<Way> kAll{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 1}, {2, 2},
                            {2, 3}, {2, 4}, {3, 1}, {3, 2}, {3, 3}, {3, 4}};
const std::vector<Way> kSome{{1, 2}, {1, 3}, {2, 3}, {2, 4}, {3, 2}};

void expect_same_bits(const Job& job, const std::vector<Way>& ways, at::ScalarType dtype = at::kFloat) {
  const Outcome single = run_job(job, 1, {.reproducible = true, .dtype = dtype});
  for (const auto& [stage, ranks] : ways) {
    EXPECT_TRUE(run_job(job, ranks, sharded(stage, dtype)) == single)
        << "stage " << stage << " on " << ranks << " ranks";
  }
}

TEST(ShardedBits, AreThoseOfSingleInEveryStageOnAnyNumberOfRanks) {
  Job job = difficult_job(7);
  job.steps = 4;
  expect_same_bits(job, kAll);
}

TEST(ShardedBits, AreThoseOfSingleForEveryNumberOfMicroBatches) {
  for (const uint64_t micro_batches : {4, 5, 6, 8, 11, 13}) {
    SCOPED_TRACE(micro_batches);
    Job job = difficult_job(micro_batches);
    job.steps = 2;
    expect_same_bits(job, kSome);
  }
}

// Each group of ranks has a copy of the shards.
TEST(ShardedBits, AreThoseOfSingleInGroups) {
  struct Groups {
    int stage, ranks, size;
  };
  for (const uint64_t micro_batches : {4, 7, 13}) {
    Job job = difficult_job(micro_batches, with_ema(muon()));
    job.steps = 3;
    const Outcome single = run_job(job, 1, {.reproducible = true});
    for (const auto& [stage, ranks, size] :
         {Groups{1, 4, 2}, {2, 4, 2}, {3, 4, 2}, {1, 6, 3}, {2, 6, 2}, {2, 3, 1}, {3, 6, 3}, {2, 2, 2}}) {
      RunOptions options = sharded(stage, at::kFloat);
      options.sets.push_back("strategy.shard_group=\"" + std::to_string(size) + "\"");
      EXPECT_TRUE(run_job(job, ranks, options) == single)
          << "stage " << stage << " on " << ranks << " ranks in groups of " << size << ", " << micro_batches
          << " micro-batches";
    }
  }
}

TEST(ShardedBits, StayThoseOfSingleOverManySteps) {
  Job job = difficult_job(5);
  job.steps = 40;
  expect_same_bits(job, {{1, 3}, {2, 2}, {2, 3}, {3, 4}});
}

TEST(ShardedBits, AreThoseOfSingleForEveryOptimizer) {
  for (const plugins::Optimizer& optimizer :
       {adamw(0), in_bits(adamw(), 16), in_bits(with_ema(muon()), 8), sgd(), sgd(0.9, 0.1),
        sgd(0.9, 0.1, true), with_ema(sgd(), 2, 1)}) {
    Job job = difficult_job(5, optimizer);
    job.steps = 4;
    job.clip_norm = 0;
    job.inverse_scale = 1.0 / 1024;
    expect_same_bits(job, {{1, 3}, {2, 2}, {3, 3}});
  }
}

// Matrices lie in pieces with several ranks: small ones with one, large ones with all.
Job muon_job(uint64_t micro_batches) {
  Job job = difficult_job(micro_batches, with_ema(muon()));
  for (const size_t index : {3, 5, 6, 8}) job.specs[index].hidden = true;
  job.steps = 4;
  return job;
}

TEST(ShardedBits, AreThoseOfSingleWhereTensorsAreUpdatedAsAWhole) {
  const Job job = muon_job(5);
  expect_same_bits(job, kAll);
  const Outcome single = run_job(job, 1, {.reproducible = true});
  EXPECT_TRUE(run_job(job, 3, {.plugin = "ddp", .reproducible = true}) == single);
  Job by_adamw = difficult_job(5);
  by_adamw.steps = job.steps;
  EXPECT_GT(distance(run_job(by_adamw, 1, {.reproducible = true}), single), 0.01);
}

TEST(ShardedBits, AreThoseOfSingleWhereNarrowTensorsAreUpdatedAsAWhole) {
  expect_same_bits(muon_job(5), kSome, at::kBFloat16);
}

// A job whose weights and gradients are in bfloat16 or float16.
Job narrow_job(uint64_t micro_batches, at::ScalarType dtype) {
  Job job = difficult_job(micro_batches);
  job.batch = [batch = job.batch, dtype](uint64_t step) {
    std::vector<MicroBatch> result = batch(step);
    for (MicroBatch& one : result) {
      for (Gradients* gradients : {&one.gradients, &one.again}) {
        for (at::Tensor& gradient : *gradients) {
          if (gradient.defined()) gradient = gradient.to(dtype);
        }
      }
    }
    return result;
  };
  return job;
}

TEST(ShardedBits, AreThoseOfSingleWithNarrowParameters) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    Job job = narrow_job(5, dtype);
    job.steps = 4;
    expect_same_bits(job, kSome, dtype);
  }
}

TEST(ShardedBits, AreThoseOfSingleWithUnits) {
  Job job = difficult_job(5);
  for (size_t i = 0; i < job.specs.size(); ++i) job.specs[i].unit = static_cast<uint32_t>(7 * i / 3);
  job.steps = 4;
  expect_same_bits(job, kSome);
}

}  // namespace
}  // namespace pipeline::strategies
