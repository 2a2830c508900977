// `ddp` at its ends: how it starts, what it saves and says, and how it fails.
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

}  // namespace
}  // namespace pipeline::strategies
