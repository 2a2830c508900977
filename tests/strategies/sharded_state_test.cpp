// `sharded` at its ends: what it saves and loads, what it says that it holds, and how it fails.
#include <numeric>

#include <gmock/gmock.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<ParameterSpec> kShardSpecs{
    {"w", {133, 265}, true, 1, true, 1},      {"b", {7}, false, 1, true, 1},
    {"frozen", {50, 300}, true, 1, false, 2}, {"empty", {0}, true, 1, true, 2},
    {"v", {64, 160}, true, 0.5, true, 2},     {"narrow", {40, 211}, true, 1, false, 2, true}};

// "single", "ddp", or "1", "2", "3": a stage of `sharded`.
RunOptions options(const Rank& rank, const std::string& strategy, bool reproducible = true) {
  RunOptions result{
      .plugin = strategy, .reproducible = reproducible, .micro_batches = 5, .group = rank.view()};
  if (strategy.size() > 1) return result;
  result.plugin = "sharded";
  result.sets = {"strategy.zero_stage=" + strategy, "strategy.bucket_mib=0.05"};
  return result;
}

// Continues from `from`; returns the state of all ranks together.
State train(const std::string& strategy, int ranks, const State& from, uint64_t first, uint64_t last,
            const plugins::Optimizer& optimizer = adamw()) {
  const auto states = each_rank(ranks, [&](const Rank& rank) {
    StrategyRun run(kShardSpecs, optimizer, options(rank, strategy));
    run.load(from, first == 0);
    for (uint64_t step = first; step < last; ++step) {
      run.strategy().collect(run.start_step(share_of(rank, run, random_batch(kShardSpecs, step)),
                                            StrategyRun::step_args(0.01, 1.0)));
    }
    return run.state();
  });
  State all = states[0];
  for (size_t r = 1; r < states.size(); ++r) append(all, states[r]);
  return all;
}

TEST(ShardedState, MovesBetweenStrategiesAndNumbersOfRanksToTheBit) {
  const State start = some_values(kShardSpecs);
  for (const plugins::Optimizer& optimizer : {adamw(), in_bits(adamw(), 16), in_bits(adamw(), 8)}) {
    const State whole = train("single", 1, start, 0, 16, optimizer);
    State moved = start;
    uint64_t step = 0;
    for (const auto& [strategy, ranks] : std::vector<std::pair<std::string, int>>{
             {"2", 4}, {"3", 2}, {"single", 1}, {"1", 3}, {"ddp", 2}, {"3", 3}, {"2", 1}, {"2", 2}}) {
      moved = train(strategy, ranks, moved, step, step + 2, optimizer);
      step += 2;
    }
    EXPECT_EQ(moved, whole);
  }
}

// Every element lies with one rank, and no rank has much more than its share.
TEST(ShardedState, IsDealtOutEvenly) {
  for (const char* stage : {"1", "2", "3"}) {
    const int ranks = 3;
    std::mutex mutex;
    std::map<std::string, std::vector<int>> owners;  // by tensor and element
    on_ranks(ranks, [&](const Rank& rank) {
      StrategyRun run(kShardSpecs, adamw(), options(rank, stage));
      uint64_t mine = 0;
      const auto snapshot = run.strategy().snapshot(PL_SNAPSHOT_VIEW);
      snapshot.pieces([&](const pl_piece& piece) {
        const std::lock_guard lock(mutex);
        const auto text = [](pl_str s) { return std::string(s.ptr, s.len); };
        std::vector<int>& elements = owners[text(piece.kind) + "/" + text(piece.parameter)];
        elements.resize(
            std::accumulate(piece.shape, piece.shape + piece.ndim, size_t{1},
                            [](size_t n, int64_t extent) { return n * static_cast<size_t>(extent); }));
        for (uint64_t i = 0; i < piece.count; ++i) ++elements[piece.offset + i];
        mine += piece.count;
      });
      const uint64_t trained = 133 * 265 + 7 + 64 * 160, all = 3 * trained + 50 * 300 + 40 * 211;
      EXPECT_LE(mine, all / 3 + 4 * 4 * 4096) << "at most a chunk more of each region and kind";
    });
    EXPECT_EQ(owners.size(), 6u + 2 * 4 + 1);
    for (const auto& [name, elements] : owners) {
      EXPECT_THAT(elements, testing::Each(1)) << name;
    }
  }
}

// A rank asks for nothing that it does not keep.
TEST(ShardedState, EveryRankReadsItsOwnPartAlone) {
  const State start = some_values(kShardSpecs);
  const auto read = each_rank(4, [&](const Rank& rank) {
    StrategyRun run(kShardSpecs, adamw(), options(rank, "2"));
    uint64_t elements = 0;
    run.strategy().load_state(
        [&](const pl_piece& piece, void* destination) {
          elements += piece.count;
          std::memset(destination, 0, piece.count * piece.dtype.bits / 8);
        },
        false);
    return elements;
  });
  const uint64_t trained = 133 * 265 + 7 + 64 * 160;
  EXPECT_EQ(std::accumulate(read.begin(), read.end(), uint64_t{0}), 3 * trained + 50 * 300 + 40 * 211 + 4);
}

TEST(ShardedMemory, SaysWhatItHolds) {
  constexpr uint64_t kElements = 1 << 20, kFrozen = 1 << 14;
  const std::vector<ParameterSpec> specs{{"a", {kElements / 2}, true, 1, true, 0},
                                         {"f", {kFrozen}, true, 1, false, 1},
                                         {"n", {2 * kFrozen}, true, 1, false, 1, /*narrow=*/true},
                                         {"b", {kElements / 2}, true, 1, true, 1}};
  constexpr uint64_t kWide = 4 * (kElements + 2 * kFrozen);  // two bytes of `n` are worth one of `f`
  // Per rank of 4: 3 buckets of 1 MiB in flight; what is sent and received less the own part, and that.
  const uint64_t flights = 3 * (2 * 3 + 1) * (uint64_t{1} << 18);
  const auto memory = [&](const Rank& rank, int stage, bool reproducible, at::ScalarType dtype) {
    StrategyRun run(specs, adamw(),
                    {.plugin = "sharded",
                     .reproducible = reproducible,
                     .dtype = dtype,
                     .micro_batches = 8,
                     .sets = {"strategy.zero_stage=" + std::to_string(stage), "strategy.bucket_mib=1"},
                     .group = rank.view()});
    return run.strategy().memory();
  };
  on_ranks(4, [&](const Rank& rank) {
    EXPECT_THAT(memory(rank, 1, false, at::kFloat),
                ElementsAre(Pair("parameters", kWide), Pair("gradients", kElements),
                            Pair("gradients before they are sent", 4 * kElements),
                            Pair("buckets in flight", flights), Pair("optimizer state", 2 * kElements)));
    EXPECT_THAT(memory(rank, 2, false, at::kFloat),
                ElementsAre(Pair("parameters", kWide), Pair("gradients", kElements),
                            Pair("buckets in flight", flights), Pair("optimizer state", 2 * kElements)));
    EXPECT_THAT(memory(rank, 2, false, at::kBFloat16),
                ElementsAre(Pair("parameters", 2 * (kElements + 3 * kFrozen)),
                            Pair("master weights", kElements), Pair("gradients", kElements),
                            Pair("buckets in flight", flights), Pair("optimizer state", 2 * kElements)));
    EXPECT_THAT(
        memory(rank, 3, false, at::kFloat),
        ElementsAre(Pair("parameters", kWide / 4), Pair("units in use", kWide), Pair("gradients", kElements),
                    Pair("buckets in flight", flights), Pair("optimizer state", 2 * kElements)));
    EXPECT_THAT(memory(rank, 2, true, at::kFloat),
                ElementsAre(Pair("parameters", kWide), Pair("gradients", kElements),
                            Pair("gradients before they are sent", 4 * kElements),
                            Pair("gradients of the sum tree", 3 * kElements),
                            Pair("buckets in flight", flights), Pair("optimizer state", 2 * kElements)));
  });
}

TEST(ShardedErrors, AGroupThatBreaksFailsTheStepAndCanBeDestroyed) {
  for (const char* stage : {"1", "2", "3"})
    for (const bool reproducible : {false, true})
      expect_a_broken_group_fails_the_step(
          kShardSpecs, [&](const Rank& rank) { return options(rank, stage, reproducible); });
}

TEST(ShardedErrors, AStepThatAllRanksGaveUpLeavesNoTrace) {
  for (const char* stage : {"1", "2", "3"}) {
    for (const bool reproducible : {false, true}) {
      const auto run_with = [&](bool gives_up) {
        return each_rank(2, [&](const Rank& rank) {
          StrategyRun run(kShardSpecs, adamw(), options(rank, stage, reproducible));
          for (uint64_t step = 0; step < 4; ++step) {
            if (gives_up && step == 2) {
              run.strategy().begin_step(1);
              run.deliver(4, at::ones(kShardSpecs[4].shape));
              if (rank.rank == 1) run.deliver(1, at::ones(kShardSpecs[1].shape));
            }
            run.strategy().collect(run.start_step(share_of(rank, run, random_batch(kShardSpecs, step)),
                                                  StrategyRun::step_args(0.01)));
          }
          return run.state();
        });
      };
      EXPECT_EQ(run_with(true), run_with(false));
    }
  }
}

TEST(ShardedErrors, OptionsThatCannotBe) {
  const auto with = [](const std::string& set, bool reproducible = false) {
    return error_of([&] {
      StrategyRun run(kShardSpecs, sgd(), {.plugin = "sharded", .reproducible = reproducible, .sets = {set}});
    });
  };
  EXPECT_THAT(with("strategy.zero_stage=4"), HasSubstr("must be at least 1 and at most 3"));
  EXPECT_THAT(with("strategy.offload=true"),
              HasSubstr("strategy.offload=true: it would be in host memory, where it is already"));
  EXPECT_THAT(with("strategy.offload_weights=true"), HasSubstr("where it is already"));
  EXPECT_THAT(with("strategy.reduction=\"bf16\"", true), HasSubstr("use \"fp32\""));
}

TEST(ShardedErrors, GradientsThatDoNotFit) {
  StrategyRun run(kShardSpecs, adamw(), {.plugin = "sharded"});
  expect_gradients_that_do_not_fit_are_refused(run);
}

// `sharded` in reproducible mode: the bits of `single`, in every stage and on any number of ranks.

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

TEST(ShardedBits, AreThoseOfSingleForSeveralLosses) {
  Job job = difficult_job(5, with_ema(muon())).with_two_losses();
  job.steps = 4;
  expect_same_bits(job, kSome);
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
