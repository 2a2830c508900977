// `sharded` outside of reproducible mode: sums, when gradients travel, and that they go.
#include <algorithm>
#include <atomic>

#include <gmock/gmock.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Buckets are small, so that there are many.
RunOptions sharded(int stage, const std::vector<std::string>& more = {}) {
  RunOptions options{.plugin = "sharded",
                     .sets = {"strategy.zero_stage=" + std::to_string(stage), "strategy.bucket_mib=0.05"}};
  options.sets.insert(options.sets.end(), more.begin(), more.end());
  return options;
}

// Under SGD what is close stays close; AdamW divides by what may be almost zero.
TEST(ShardedSum, IsCloseToSingle) {
  for (const uint64_t micro_batches : {4, 7, 12}) {
    Job job = difficult_job(micro_batches, sgd(0.9, 0.1));
    job.steps = 4;
    const Outcome single = run_job(job, 1, {});
    for (const int stage : {1, 2, 3}) {
      for (const int ranks : {1, 2, 3, 4}) {
        EXPECT_LT(distance(run_job(job, ranks, sharded(stage)), single), 1e-5)
            << "stage " << stage << " on " << ranks << " ranks, " << micro_batches << " micro-batches";
      }
    }
  }
}

// Copies of the shards in groups of two or three ranks. With the default buckets one of them is sent several
// times before it comes.
TEST(ShardedSum, IsCloseToSingleInGroups) {
  for (const uint64_t micro_batches : {4, 12}) {
    Job job = difficult_job(micro_batches, sgd(0.9, 0.1));
    job.steps = 4;
    const Outcome single = run_job(job, 1, {});
    for (const int stage : {1, 2, 3}) {
      for (const bool small_buckets : {true, false}) {
        RunOptions options = sharded(stage, {"strategy.shard_group=\"2\""});
        if (!small_buckets) options.sets.erase(options.sets.begin() + 1);
        EXPECT_LT(distance(run_job(job, 4, options), single), 1e-5) << "stage " << stage;
      }
      EXPECT_LT(distance(run_job(job, 3, sharded(stage, {"strategy.shard_group=\"1\""})), single), 1e-5);
    }
  }
}

TEST(ShardedSum, IsCloseToSingleWithTheDefaultBucketsAndWithoutOverlap) {
  Job job = difficult_job(8, sgd(0.9, 0.1));
  job.steps = 4;
  const Outcome single = run_job(job, 1, {});
  for (const int stage : {1, 2, 3}) {
    const std::string zero_stage = "strategy.zero_stage=" + std::to_string(stage);
    EXPECT_LT(distance(run_job(job, 3, {.plugin = "sharded", .sets = {zero_stage}}), single), 1e-5) << stage;
    EXPECT_LT(distance(run_job(job, 3, sharded(stage, {"strategy.overlap=false"})), single), 1e-5) << stage;
  }
}

TEST(ShardedSum, InBf16IsCloseAndTheSameOnAllRanks) {
  Job job = difficult_job(4, sgd());
  job.steps = 5;
  const Outcome single = run_job(job, 1, {});
  const RunOptions options = sharded(2, {"strategy.reduction=\"bf16\""});
  const Outcome narrow = run_job(job, 2, options);
  EXPECT_LT(distance(narrow, single), 0.02);
  EXPECT_GT(distance(narrow, single), 1e-6);  // it does round
  StrategyRun run(job.specs, sgd(), options);
  EXPECT_EQ(run.strategy().info().reduction_dtype.code, PL_DTYPE_BFLOAT);
}

TEST(ShardedSum, AGradientThatIsNotFiniteSkipsTheStepEverywhere) {
  Job job = difficult_job(5);
  job.batch = [batch = job.batch](uint64_t step) {
    std::vector<MicroBatch> micro_batches = batch(step);
    if (step == 2) micro_batches[3].gradients[3][5][5] = NAN;
    if (step == 5) micro_batches[0].gradients[0][1][1] = -INFINITY;
    return micro_batches;
  };
  for (const int stage : {1, 2, 3}) {
    for (const bool reproducible : {false, true}) {
      RunOptions options = sharded(stage);
      options.reproducible = reproducible;
      EXPECT_THAT(run_job(job, stage, options).finite, ElementsAre(1, 1, 0, 1, 1, 0, 1, 1, 1, 1));
    }
  }
}

// Layers for two ranks: each layer is a bucket.
const std::vector<ParameterSpec> kLayers{{"a", {8192}}, {"b", {8192}}, {"c", {8192}}, {"d", {8192}},
                                         {"e", {8192}}, {"f", {8192}}, {"g", {8192}}, {"h", {8192}}};
const std::vector<std::string> kOneEach{"strategy.bucket_mib=0.03125"};

// A rank's group over a backend that cannot tell what is done: then no bucket waits for its turn, and what
// has been sent after a gradient does not depend on how fast the other ranks are.
class CannotTell {
 public:
  explicit CannotTell(const Rank& rank) : api_(*rank.view()->api), view_(*rank.view()) {
    api_.is_done = nullptr;
    view_.api = &api_;
  }
  const pl_communicator* view() const { return &view_; }

 private:
  pl_backend_api api_;
  pl_communicator view_;
};

StrategyRun layers_on(const pl_communicator* group, int stage, const plugins::Optimizer& optimizer = adamw(),
                      const std::vector<std::string>& sets = kOneEach) {
  RunOptions options = sharded(stage, sets);
  options.group = group;
  return StrategyRun(kLayers, optimizer, options);
}

struct Progress {
  std::vector<size_t> sent;  // collectives, after each gradient and after the micro-batch
  std::vector<int> live;     // gradients that are still held
};

Progress micro_batch(const Rank& rank, StrategyRun& run, const std::vector<size_t>& order) {
  const size_t before = rank.started();
  Progress progress;
  const auto note = [&] {
    progress.sent.push_back(rank.started() - before);
    progress.live.push_back(run.live_gradients());
  };
  for (const size_t index : order) {
    run.hand_over(index, at::ones(kLayers[index].shape));
    note();
  }
  run.end_micro_batch(at::ones({}));
  note();
  return progress;
}

void finish(StrategyRun& run) { run.strategy().collect(run.strategy().step(StrategyRun::step_args(0.1))); }

TEST(ShardedGradients, GoAsSoonAsTheyComeInEveryMicroBatch) {
  on_ranks(2, [](const Rank& rank) {
    const CannotTell group(rank);
    StrategyRun run = layers_on(group.view(), 2);
    run.strategy().begin_step(3);
    for (int i = 0; i < 3; ++i) {
      const Progress progress = micro_batch(rank, run, {7, 6, 5, 4, 3, 2, 1, 0});
      EXPECT_THAT(progress.sent, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 8));
      EXPECT_THAT(progress.live, Each(0));
    }
    finish(run);
  });
}

TEST(ShardedGradients, GoInTheOrderInWhichTheyCameInTheFirstStep) {
  on_ranks(2, [](const Rank& rank) {
    const CannotTell group(rank);
    StrategyRun run = layers_on(group.view(), 2);
    for (int step = 0; step < 2; ++step) {
      run.strategy().begin_step(1);
      const Progress progress = micro_batch(rank, run, {0, 7, 6, 5, 4, 3, 2, 1});
      if (step == 1) {
        EXPECT_THAT(progress.sent, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 8));
      }
      EXPECT_EQ(progress.live.back(), 0);
      finish(run);
    }
  });
}

// A large gradient is more than can be in flight. The backward pass goes on all the same, though the other
// rank has not even begun, and the sums are the same however long it takes.
TEST(ShardedGradients, WaitForTheirTurnWhileTheBackwardPassGoesOn) {
  const std::vector<ParameterSpec> specs{{"large", {6, 8192}}, {"a", {8192}}, {"b", {8192}}, {"c", {8192}}};
  std::atomic<bool> begun = false;
  on_ranks(2, [&](const Rank& rank) {
    RunOptions options = sharded(2, kOneEach);
    options.group = rank.view();
    StrategyRun run(specs, sgd(), options);
    for (int step = 0; step < 2; ++step) {
      run.strategy().begin_step(1);
      const auto deliver = [&](size_t index) {
        run.hand_over(index, at::full(specs[index].shape, index + 1.0f));
      };
      if (step == 1 && rank.rank == 1) begun.wait(false);
      const size_t before = rank.started();
      for (const size_t index : {0, 3, 2, 1}) {
        deliver(index);
        if (step == 1 && rank.rank == 0) {
          EXPECT_EQ(rank.started() - before, 3u) << index;
        }
      }
      if (step == 1 && rank.rank == 0) {
        EXPECT_EQ(run.live_gradients(), 4);
        begun = true;
        begun.notify_one();
      }
      run.end_micro_batch(at::ones({}));
      EXPECT_EQ(rank.started() - before, 9u);
      EXPECT_EQ(run.live_gradients(), 0);
      finish(run);
    }
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_TRUE(run.value(i).allclose(at::full(specs[i].shape, -0.1f * 4 * (i + 1.0f)))) << i;
    }
  });
}

// Rows that no part of a bucket holds as a whole, two micro-batches a step, one of them missing on a rank.
TEST(ShardedRows, AreAddedWhereverTheyLie) {
  const std::vector<ParameterSpec> specs{{"embedding", {50, 3001}}, {"layer", {64, 4096}}, {"norm", {100}}};
  const auto rows = [](int step, int micro_batch, int rank) {
    const int64_t some = (7 * step + 5 * micro_batch + 11 * rank) % 50;
    return at::tensor({int64_t{0}, int64_t{49}, some, some}, at::kLong);
  };
  const auto has_none = [](int step, int micro_batch, int rank) {
    return rank == 1 && step == 1 && micro_batch == 1;
  };
  for (const int stage : {1, 2}) {
    for (const int ranks : {2, 3}) {
      on_ranks(ranks, [&](const Rank& rank) {
        RunOptions options = sharded(stage, kOneEach);
        options.group = rank.view();
        StrategyRun run(specs, sgd(), options);
        ASSERT_NE(run.strategy().info().flags & PL_STRATEGY_TAKES_ROWS, 0u);
        const at::Tensor values = at::arange(4 * 3001, at::kFloat).div(1000).view({4, 3001});
        at::Tensor expected = at::zeros({50, 3001});
        for (int step = 0; step < 3; ++step) {
          run.strategy().begin_step(2);
          for (int i = 0; i < 2; ++i) {
            for (int r = 0; r < ranks; ++r) {
              if (!has_none(step, i, r)) expected.add_(1).index_add_(0, rows(step, i, r), values);
            }
            if (has_none(step, i, rank.rank)) {
              run.end_micro_batch({});
              continue;
            }
            for (const size_t index : {0, 2, 1}) run.deliver(index, at::ones(specs[index].shape));
            run.add_rows(0, rows(step, i, rank.rank), values);
            run.end_micro_batch(at::ones({}));
          }
          finish(run);
        }
        EXPECT_TRUE(at::allclose(run.value(0), expected.mul(-0.1), 1e-5, 1e-5))
            << "stage " << stage << ", " << (run.value(0) + 0.1 * expected).abs().max();
      });
    }
  }
}

TEST(ShardedRows, AreNotTakenWhereNothingGainsByThem) {
  for (const RunOptions& options : {sharded(3), sharded(2, {"strategy.overlap=false"})}) {
    const StrategyRun run(kLayers, sgd(), options);
    EXPECT_EQ(run.strategy().info().flags & PL_STRATEGY_TAKES_ROWS, 0u);
  }
}

TEST(ShardedGradients, OfStage1StayUntilTheLastMicroBatch) {
  on_ranks(2, [](const Rank& rank) {
    const CannotTell group(rank);
    StrategyRun run = layers_on(group.view(), 1);
    run.strategy().begin_step(2);
    Progress progress = micro_batch(rank, run, {7, 6, 5, 4, 3, 2, 1, 0});
    EXPECT_THAT(progress.sent, Each(0));
    EXPECT_EQ(progress.live.back(), 8);
    progress = micro_batch(rank, run, {7, 6, 5, 4, 3, 2, 1, 0});
    EXPECT_THAT(progress.sent, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 8));
    EXPECT_EQ(progress.live.back(), 0);
    finish(run);
  });
}

TEST(ShardedGradients, GoInTheSameOrderHoweverTheyCome) {
  on_ranks(2, [](const Rank& rank) {
    const CannotTell group(rank);
    StrategyRun run = layers_on(group.view(), 2);
    run.strategy().begin_step(1);
    // The ranks' gradients come the other way round, so one sends nothing before it has the last layer's.
    const std::vector<size_t> order = rank.rank == 0 ? std::vector<size_t>{7, 6, 5, 4, 3, 2, 1, 0}
                                                     : std::vector<size_t>{6, 5, 4, 3, 2, 1, 0, 7};
    const Progress progress = micro_batch(rank, run, order);
    if (rank.rank == 1) {
      EXPECT_THAT(progress.sent, ElementsAre(0, 0, 0, 0, 0, 0, 0, 8, 8));
    }
    EXPECT_EQ(progress.live.back(), 0);
    finish(run);
  });
}

// One rank has no gradient for the last layer. From the second step on that holds up nobody.
TEST(ShardedGradients, ThatDoNotComeAreWaitedForInTheFirstStepOnly) {
  on_ranks(2, [](const Rank& rank) {
    const CannotTell group(rank);
    StrategyRun run = layers_on(group.view(), 2);
    for (int step = 0; step < 3; ++step) {
      run.strategy().begin_step(1);
      const std::vector<size_t> order = rank.rank == 0 ? std::vector<size_t>{7, 6, 5, 4, 3, 2, 1, 0}
                                                       : std::vector<size_t>{6, 5, 4, 3, 2, 1, 0};
      const Progress progress = micro_batch(rank, run, order);
      const std::vector<size_t> with{0, 1, 2, 3, 4, 5, 6, 7, 8}, without{1, 2, 3, 4, 5, 6, 7, 8};
      if (step > 0) {
        EXPECT_EQ(progress.sent, rank.rank == 0 ? with : without);
      } else if (rank.rank == 1) {
        EXPECT_THAT(progress.sent, ElementsAre(0, 0, 0, 0, 0, 0, 0, 8));
      }
      finish(run);
    }
  });
}

TEST(ShardedGradients, StayToTheEndWithoutOverlap) {
  on_ranks(2, [](const Rank& rank) {
    StrategyRun run = layers_on(rank.view(), 2, adamw(), {kOneEach[0], "strategy.overlap=false"});
    run.strategy().begin_step(1);
    const Progress progress = micro_batch(rank, run, {7, 6, 5, 4, 3, 2, 1, 0});
    EXPECT_THAT(progress.sent, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 8));
    finish(run);
  });
}

// A gradient that comes again when its bucket is gone: in the first step it goes with the rest, later only
// that of a step's last micro-batch has nothing to go with.
TEST(ShardedGradients, ThatComeAgainUnexpectedlyAreAddedOrRefused) {
  on_ranks(2, [](const Rank& rank) {
    const CannotTell group(rank);
    StrategyRun run = layers_on(group.view(), 2, sgd());
    const auto send = [&](size_t index) { run.hand_over(index, at::ones(kLayers[index].shape)); };
    run.strategy().begin_step(2);
    micro_batch(rank, run, {7, 6, 5, 4, 3, 2, 1, 0});
    send(7);
    send(7);
    micro_batch(rank, run, {6, 5, 4, 3, 2, 1, 0});
    finish(run);
    EXPECT_TRUE(run.value(7).equal(at::full({8192}, -0.1f * 6)));  // 2 ranks x 3
    EXPECT_TRUE(run.value(6).equal(at::full({8192}, -0.1f * 4)));

    run.strategy().begin_step(2);
    for (const size_t index : {7, 7, 6, 5, 6, 4, 3, 2, 1, 0}) send(index);  // 6 comes again: with the next
    run.end_micro_batch(at::ones({}));
    micro_batch(rank, run, {7, 6, 5, 4, 3, 2, 1, 0});
    finish(run);
    EXPECT_TRUE(run.value(6).allclose(at::full({8192}, -0.1f * 10)));

    run.strategy().begin_step(1);
    for (const size_t index : {7, 7, 6, 6, 5, 4, 3, 4, 2, 1, 0}) send(index);
    run.end_micro_batch(at::ones({}));
    try {
      run.strategy().step(StrategyRun::step_args(0.1));
      ADD_FAILURE() << "the gradient of e was lost";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the gradient of e arrived again after it had been sent"));
      EXPECT_THAT(error.what(), HasSubstr("use strategy.overlap = false"));
    }
  });
}

}  // namespace
}  // namespace pipeline::strategies
