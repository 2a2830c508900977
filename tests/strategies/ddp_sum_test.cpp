// `ddp` outside of reproducible mode: sums, and when they travel.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

const std::vector<std::string> kSmallBuckets{"strategy.bucket_mib=0.05", "strategy.first_bucket_mib=0.02"};

// Under SGD what is close stays close; AdamW divides by what may be almost zero.
TEST(DdpSum, IsCloseToSingle) {
  for (const uint64_t micro_batches : {4, 7, 12}) {
    Job job = difficult_job(micro_batches, sgd(0.9, 0.1));
    job.steps = 10;
    const Outcome single = run_job(job, 1, {});
    for (const int ranks : {1, 2, 3, 4}) {
      const Outcome ddp = run_job(job, ranks, {.plugin = "ddp", .sets = kSmallBuckets});
      EXPECT_LT(distance(ddp, single), 1e-5) << ranks << " ranks, " << micro_batches << " micro-batches";
    }
  }
}

TEST(DdpSum, IsCloseToSingleWithTheDefaultBuckets) {
  Job job = difficult_job(8, sgd(0.9, 0.1));
  job.specs.push_back({"large", {700, 800}});  // travels from where it is
  job.batch = [batch = job.batch](uint64_t step) {
    std::vector<MicroBatch> micro_batches = batch(step);
    for (size_t m = 0; m < micro_batches.size(); ++m) {
      if (!micro_batches[m].loss.defined()) continue;
      micro_batches[m].gradients.push_back(random_gradients({{"large", {700, 800}}}, 77 * step + m)[0]);
    }
    return micro_batches;
  };
  const Outcome single = run_job(job, 1, {});
  for (const int ranks : {2, 3})
    EXPECT_LT(distance(run_job(job, ranks, {.plugin = "ddp"}), single), 1e-5) << ranks;
}

TEST(DdpSum, InBf16IsCloseAndTheSameOnAllRanks) {
  Job job = difficult_job(4, sgd());
  job.steps = 5;
  const Outcome single = run_job(job, 1, {});
  std::vector<std::string> sets = kSmallBuckets;
  sets.emplace_back("strategy.reduction=\"bf16\"");
  const Outcome narrow = run_job(job, 2, {.plugin = "ddp", .sets = sets});
  EXPECT_LT(distance(narrow, single), 0.02);
  EXPECT_GT(distance(narrow, single), 1e-6);  // it does round
  each_rank(2, [&](const Rank& rank) {
    StrategyRun run(job.specs, sgd(), {.plugin = "ddp", .sets = sets, .group = rank.view()});
    EXPECT_EQ(run.strategy().info().reduction_dtype.code, PL_DTYPE_BFLOAT);
    EXPECT_EQ(run.strategy().info().reduction_dtype.bits, 16);
    return 0;
  });
}

const std::vector<ParameterSpec> kLayers{
    {"embedding", {4096 * 4}}, {"a", {4096}}, {"b", {4096}}, {"c", {4096}}};
// Each parameter is a bucket, and the embedding 4.
const std::vector<std::string> kOneEach{"strategy.bucket_mib=0.015625", "strategy.first_bucket_mib=0.015625"};
constexpr size_t kBuckets = 3 + 4;

pl_step_report finish(StrategyRun& run) {
  return run.strategy().collect(run.strategy().step(StrategyRun::step_args(0.1)));
}

// One micro-batch a rank; the numbers of collectives under way after each of the gradients.
std::vector<size_t> one_step(const Rank& rank, StrategyRun& run, const std::vector<size_t>& order) {
  const size_t before = rank.started();
  std::vector<size_t> after;
  run.strategy().begin_step(1);
  for (const size_t index : order) {
    run.deliver(index, at::ones(kLayers[index].shape));
    after.push_back(rank.started() - before);
  }
  run.end_micro_batch(at::ones({}));
  after.push_back(rank.started() - before);
  finish(run);
  return after;
}

TEST(DdpOverlap, BucketsTravelWhileTheBackwardPassRuns) {
  on_ranks(2, [](const Rank& rank) {
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = kOneEach, .group = rank.view()});
    const std::vector<size_t> backwards{3, 2, 1, 0};
    // Nobody knows yet how often a gradient comes; then each leaves at once, the figures last.
    EXPECT_THAT(one_step(rank, run, backwards), testing::ElementsAre(0, 0, 0, 0, kBuckets + 1));
    EXPECT_THAT(one_step(rank, run, backwards), testing::ElementsAre(1, 2, 3, kBuckets, kBuckets + 1));
  });
}

TEST(DdpOverlap, CanBeTurnedOff) {
  on_ranks(2, [](const Rank& rank) {
    std::vector<std::string> sets = kOneEach;
    sets.emplace_back("strategy.overlap=false");
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = sets, .group = rank.view()});
    for (int step = 0; step < 2; ++step)
      EXPECT_THAT(one_step(rank, run, {3, 2, 1, 0}), testing::ElementsAre(0, 0, 0, 0, kBuckets + 1));
    EXPECT_TRUE(at::allclose(run.value(0), at::full({4096 * 4}, -0.1 * 2 * 2)));
  });
}

TEST(DdpOverlap, TheOrderOnTheWireIsTheSameWhateverTheOrderOfTheGradients) {
  on_ranks(3, [](const Rank& rank) {
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = kOneEach, .group = rank.view()});
    std::vector<size_t> order{0, 1, 2, 3};
    for (uint64_t step = 0; step < 6; ++step) {
      for (int turn = 0; turn <= rank.rank; ++turn) std::ranges::next_permutation(order);
      one_step(rank, run, order);
    }
    // Buckets go in rank 0's order of the first step, 0, 1, 3, 2; gradients come in the order 2, 0, 3, 1.
    EXPECT_THAT(one_step(rank, run, {2, 0, 3, 1}), testing::ElementsAre(0, 4, 4, kBuckets, kBuckets + 1));
    EXPECT_TRUE(at::allclose(run.value(0), at::full({4096 * 4}, -0.1 * 7 * 3)));
  });
}

TEST(DdpOverlap, AnUnusedParameterHoldsNothingUp) {
  on_ranks(2, [](const Rank& rank) {
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = kOneEach, .group = rank.view()});
    one_step(rank, run, {2, 1, 0});
    EXPECT_THAT(one_step(rank, run, {2, 1, 0}), testing::ElementsAre(1, 2, kBuckets, kBuckets + 1));
  });
}

TEST(DdpOverlap, NothingTravelsBeforeTheLastMicroBatch) {
  on_ranks(2, [](const Rank& rank) {
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = kOneEach, .group = rank.view()});
    run.strategy().begin_step(3);
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      for (const size_t index : {3, 2, 1, 0}) {
        run.deliver(index, at::ones(kLayers[index].shape));
        if (micro_batch < 2) {
          EXPECT_EQ(rank.started(), 0u);
        }
      }
      // The first micro-batch taught how often gradients come.
      EXPECT_EQ(rank.started(), micro_batch == 2 ? kBuckets : 0u);
      run.end_micro_batch(at::ones({}));
    }
    EXPECT_EQ(finish(run).loss_sum, 6);
  });
}

// Elements in each collective of the last step.
std::vector<uint64_t> sizes(const Rank& rank, size_t last) {
  std::vector<uint64_t> result;
  const auto flights = rank.group->record().recent();
  for (size_t i = flights.size() - last; i < flights.size(); ++i) result.push_back(flights[i].count);
  return result;
}

TEST(DdpRows, TheDensePartOfATiedEmbeddingGoesFirstAndItsRowsGoLast) {
  const std::vector<ParameterSpec> specs{{"embedding", {64, 4096}}, {"layer", {64, 4096}}};
  on_ranks(2, [&](const Rank& rank) {
    StrategyRun run(specs, sgd(), {.plugin = "ddp", .sets = {"strategy.bucket_mib=2"}, .group = rank.view()});
    EXPECT_NE(run.strategy().info().flags & PL_STRATEGY_TAKES_ROWS, 0u);
    for (int step = 0; step < 3; ++step) {
      const size_t before = rank.started();
      run.strategy().begin_step(1);
      run.deliver(0, at::ones({64, 4096}));
      EXPECT_EQ(rank.started() - before, step > 0 ? 1u : 0u);  // before any layer's
      run.deliver(1, at::ones({64, 4096}));
      EXPECT_EQ(rank.started() - before, step > 0 ? 2u : 0u);
      // Both ranks have one row in common, each has one of its own, and one row comes twice.
      run.add_rows(0, at::tensor({5, 10 + 7 * rank.rank, 63, 63}, at::kLong), at::ones({4, 4096}));
      run.end_micro_batch(at::ones({}));
      finish(run);
    }
    // Sizes of the embedding, the layer, the loss; then how long rows are, which they are, and four of them.
    EXPECT_THAT(sizes(rank, 6), testing::ElementsAre(64 * 4096, 64 * 4096, 1, 2, 64, 4 * 4096));
    at::Tensor expected = at::full({64, 4096}, 2);
    expected[5] += 2;
    expected[10] += 1;
    expected[17] += 1;
    expected[63] += 4;
    EXPECT_TRUE(at::allclose(run.value(0), expected.mul(-0.1 * 3)));
  });
}

TEST(DdpRows, OfEarlierMicroBatchesAndOfRanksWithoutAnyAreNotLost) {
  const std::vector<ParameterSpec> specs{{"embedding", {8, 3}}, {"layer", {4096}}};
  on_ranks(2, [&](const Rank& rank) {
    StrategyRun run(specs, sgd(), {.plugin = "ddp", .group = rank.view()});
    for (int step = 0; step < 2; ++step) {
      run.strategy().begin_step(2);
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        run.deliver(0, at::ones({8, 3}));
        run.deliver(1, at::ones({4096}));
        if (rank.rank == 1) run.add_rows(0, at::tensor({7}, at::kLong), at::full({1, 3}, 5));
        run.add_rows(0, at::empty({0}, at::kLong), at::empty({0, 3}));
        run.end_micro_batch(at::ones({}));
      }
      finish(run);
    }
    at::Tensor expected = at::full({8, 3}, 4);
    expected[7] += 2 * 5;
    EXPECT_TRUE(at::allclose(run.value(0), expected.mul(-0.1 * 2))) << run.value(0);
  });
}

TEST(DdpRows, OfAnotherShapeAreRefusedAndOthersDoNotTakeThem) {
  on_ranks(2, [](const Rank& rank) {
    StrategyRun run({{"embedding", {8, 3}}}, sgd(), {.plugin = "ddp", .group = rank.view()});
    run.strategy().begin_step(1);
    EXPECT_THROW(run.add_rows(0, at::tensor({7}, at::kLong), at::ones({2, 3})), Error);
    run.deliver(0, at::ones({8, 3}));
    run.end_micro_batch(at::ones({}));
    finish(run);
    const StrategyRun other({{"embedding", {8, 3}}}, sgd(),
                            {.plugin = "ddp", .sets = {"strategy.overlap=false"}, .group = rank.view()});
    EXPECT_EQ(other.strategy().info().flags & PL_STRATEGY_TAKES_ROWS, 0u);
  });
  const StrategyRun single({{"embedding", {8, 3}}}, sgd(), {});
  EXPECT_EQ(single.strategy().info().flags & PL_STRATEGY_TAKES_ROWS, 0u);
}

TEST(DdpOverlap, ASecondPartIsWaitedFor) {
  on_ranks(2, [](const Rank& rank) {
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = kOneEach, .group = rank.view()});
    std::vector<size_t> collectives;
    for (int step = 0; step < 3; ++step) {
      collectives.push_back(rank.started());
      one_step(rank, run, {3, 2, 1, 0, 3});
    }
    EXPECT_EQ(collectives[2] - collectives[1], kBuckets + 1);
    EXPECT_TRUE(at::allclose(run.value(3), at::full({4096}, -0.1 * 3 * 2 * 2)));
  });
}

TEST(DdpLate, ASurpriseOnOneRankIsNotLost) {
  on_ranks(3, [](const Rank& rank) {
    StrategyRun run(kLayers, sgd(), {.plugin = "ddp", .sets = kOneEach, .group = rank.view()});
    one_step(rank, run, {2, 1, 0});
    one_step(rank, run, rank.rank == 1 ? std::vector<size_t>{3, 2, 1, 0, 2} : std::vector<size_t>{2, 1});
    EXPECT_TRUE(at::allclose(run.value(3), at::full({4096}, -0.1)));
    EXPECT_TRUE(at::allclose(run.value(2), at::full({4096}, -0.1 * (3 + 4))));
    EXPECT_TRUE(at::allclose(run.value(0), at::full({4096 * 4}, -0.1 * (3 + 1))));
  });
}

}  // namespace
}  // namespace pipeline::strategies
