// `ddp` at its ends: how it starts, what it saves and says, and how it fails.
#include <cmath>
#include <utility>

#include <gmock/gmock.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<ParameterSpec> kStateSpecs{
    {"w", {33, 65}}, {"b", {7}, false}, {"frozen", {5, 3}, true, 1, false}, {"v", {64, 16}, true, 0.5}};

RunOptions options(const Rank& rank, bool reproducible = true) {
  return {.plugin = rank.group ? "ddp" : "single",
          .reproducible = reproducible,
          .micro_batches = 5,
          .group = rank.view()};
}

// Continues from `from` on some ranks; returns the state of rank 0, which has it all.
State train(int ranks, const State& from, uint64_t first, uint64_t last) {
  return each_rank(ranks, [&](const Rank& rank) {
    StrategyRun run(kStateSpecs, adamw(), options(rank));
    run.load(from, first == 0);
    for (uint64_t step = first; step < last; ++step) {
      run.strategy().collect(run.start_step(share_of(rank, run, random_batch(kStateSpecs, step)),
                                            StrategyRun::step_args(0.01, 1.0)));
    }
    return run.state();
  })[0];
}

TEST(DdpState, MovesBetweenSingleAndAnyNumberOfRanksToTheBit) {
  const State start = some_values(kStateSpecs);
  const State whole = train(1, start, 0, 8);
  State moved = start;
  uint64_t step = 0;
  for (const int ranks : {4, 2, 1, 3}) {
    moved = train(ranks, moved, step, step + 2);
    step += 2;
  }
  EXPECT_EQ(moved, whole);
}

TEST(DdpState, Rank0HasItAllAndTheOthersNothing) {
  const auto states = each_rank(3, [](const Rank& rank) {
    StrategyRun run(kStateSpecs, adamw(), options(rank));
    return run.state();
  });
  EXPECT_EQ(states[0].size(), 4u + 2 * 3 + 1);
  EXPECT_TRUE(states[1].empty());
  EXPECT_TRUE(states[2].empty());
}

TEST(DdpState, AllRanksStartFromWhatRank0Reads) {
  const State start = some_values(kStateSpecs);
  const auto values = each_rank(3, [&](const Rank& rank) {
    StrategyRun run(kStateSpecs, adamw(), options(rank));
    run.load(rank.rank == 0 ? start : State{}, true);  // the others have no file
    return run.value(3).clone();
  });
  EXPECT_TRUE(values[1].equal(values[0]));
  EXPECT_TRUE(values[2].equal(values[0]));
  EXPECT_FALSE(values[0].equal(at::zeros_like(values[0])));
}

TEST(DdpState, WhatRank0CannotReadFailsEverywhere) {
  std::vector<std::string> problems(2);
  try {
    on_ranks(2, [&](const Rank& rank) {
      StrategyRun run(kStateSpecs, adamw(), options(rank));
      try {
        run.load({}, true);
      } catch (const Error& error) {
        problems[static_cast<size_t>(rank.rank)] = error.what();
        throw;
      }
    });
    FAIL();
  } catch (const Error&) {
  }
  EXPECT_EQ(problems[0], "value/w: is not in this state");
  EXPECT_THAT(problems[1], HasSubstr("loading failed: value/w: is not in this state"));
}

// A group that damages what its rank is sent in a broadcast.
class DamagingGroup {
 public:
  explicit DamagingGroup(const pl_communicator& real) : api_(*real.api), view_(real) {
    real_ = real.api;
    api_.broadcast = [](pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out) {
      received_ = static_cast<float*>(in_out->data);
      return real_->broadcast(comm, in_out, root, out);
    };
    api_.wait = [](pl_comm* comm, pl_work* work, pl_stream stream) {
      pl_error* error = real_->wait(comm, work, stream);
      if (received_) *std::exchange(received_, nullptr) += 1;
      return error;
    };
    view_.api = &api_;
  }
  const pl_communicator* view() const { return &view_; }

 private:
  static inline thread_local const pl_backend_api* real_ = nullptr;
  static inline thread_local float* received_ = nullptr;
  pl_backend_api api_;
  pl_communicator view_;
};

TEST(DdpState, ARankThatDiffersAfterLoadingIsNamedByAll) {
  const State start = some_values(kStateSpecs);
  const auto problems = each_rank(3, [&](const Rank& rank) -> std::string {
    const DamagingGroup damaging(*rank.view());
    RunOptions run_options = options(rank);
    if (rank.rank == 1) run_options.group = damaging.view();
    StrategyRun run(kStateSpecs, adamw(), run_options);
    return error_of([&] { run.load(start, true); });
  });
  for (const std::string& problem : problems) {
    EXPECT_THAT(problem, HasSubstr("rank 1 holds other weights or another optimizer state than rank 0"));
  }
}

TEST(DdpMemory, SaysWhatItHolds) {
  const std::vector<ParameterSpec> specs{{"w", {4096}}, {"f", {4096}, true, 1, false}, {"large", {1 << 20}}};
  const uint64_t kTrained = 4 * (4096 + (1 << 20));
  on_ranks(2, [&](const Rank& rank) {
    StrategyRun run(specs, adamw(), options(rank, false));
    EXPECT_THAT(run.strategy().memory(),
                ElementsAre(Pair("parameters", kTrained + 16384), Pair("gradients", kTrained),
                            Pair("gradient buckets", 16384u), Pair("optimizer state", 2 * kTrained)));
    RunOptions narrow = options(rank, true);
    narrow.dtype = at::kBFloat16;
    StrategyRun reproducible(specs, sgd(), narrow);
    // 3 micro-batches a rank: two copies in the tree.
    EXPECT_THAT(
        reproducible.strategy().memory(),
        ElementsAre(Pair("parameters", kTrained / 2 + 8192), Pair("master weights", kTrained),
                    Pair("gradients", kTrained), Pair("gradients of the sum tree", 2 * kTrained),
                    Pair("exchange of reproducible sums", 4 * 2 * kTrained), Pair("optimizer state", 0u)));
  });
}

TEST(DdpErrors, AGroupThatBreaksFailsTheStepAndCanBeDestroyed) {
  for (const bool reproducible : {false, true})
    expect_a_broken_group_fails_the_step(kStateSpecs,
                                         [&](const Rank& rank) { return options(rank, reproducible); });
}

TEST(DdpErrors, AStepThatAllRanksGaveUpLeavesNoTrace) {
  for (const bool reproducible : {false, true}) {
    const auto run_with = [&](bool gives_up) {
      return each_rank(2, [&](const Rank& rank) {
        StrategyRun run(kStateSpecs, adamw(), options(rank, reproducible));
        for (uint64_t step = 0; step < 4; ++step) {
          if (gives_up && step == 2) {
            run.strategy().begin_step(1);
            for (int i = 0; i <= rank.rank; ++i)
              run.deliver(3 - static_cast<size_t>(3 * i),
                          at::ones(kStateSpecs[3 - static_cast<size_t>(3 * i)].shape));
          }
          run.strategy().collect(run.start_step(share_of(rank, run, random_batch(kStateSpecs, step)),
                                                StrategyRun::step_args(0.01)));
        }
        return run.state();
      })[0];
    };
    EXPECT_EQ(run_with(true), run_with(false));
  }
}

TEST(DdpErrors, GradientsThatDoNotFit) {
  StrategyRun run(kStateSpecs, adamw(), {.plugin = "ddp"});
  expect_gradients_that_do_not_fit_are_refused(run);
}

// `ddp` in reproducible mode: the bits of `single`, on any number of ranks.

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

TEST(DdpBits, AreThoseOfSingleForSeveralLosses) {
  Job job = difficult_job(5, with_ema(muon())).with_two_losses();
  job.steps = 4;
  expect_same_bits(job);
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
