// The harness itself: ranks that are threads.
#include "tests/strategies/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipeline::strategies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<ParameterSpec> kSpecs{{"w", {16}}};

TEST(Ranks, AreJoined) {
  const auto sums = each_rank(3, [](const Rank& rank) {
    std::int64_t value = rank.rank;
    rank.group->all_reduce(plugins::host_buffer(&value, 1)).wait();
    return value;
  });
  EXPECT_THAT(sums, ElementsAre(3, 3, 3));
}

TEST(Ranks, OneAloneHasNoGroup) {
  EXPECT_THAT(each_rank(1, [](const Rank& rank) { return rank.view() == nullptr; }), ElementsAre(true));
}

TEST(Ranks, AFailureEndsTheOthersAndIsTheOneThatIsThrown) {
  try {
    on_ranks(3, [](const Rank& rank) {
      if (rank.rank == 1) throw std::runtime_error("rank 1 has had enough");
      rank.group->barrier().wait();
    });
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "rank 1 has had enough");
  }
}

TEST(Ranks, ShareMicroBatchesInBlocks) {
  StrategyRun run(kSpecs, sgd());
  std::vector<MicroBatch> batch(5);
  for (size_t m = 0; m < batch.size(); ++m) batch[m].loss = at::scalar_tensor(static_cast<double>(m));
  const auto losses = [&](int rank) {
    std::vector<double> result;
    for (const MicroBatch& micro_batch : share_of({rank, 4, nullptr}, run, batch))
      result.push_back(micro_batch.loss.defined() ? micro_batch.loss.item<double>() : -1);
    return result;
  };
  EXPECT_THAT(losses(0), ElementsAre(0, 1));
  EXPECT_THAT(losses(2), ElementsAre(4, -1));
  EXPECT_THAT(losses(3), ElementsAre(-1, -1));
}

TEST(Ranks, OptionsReachTheStrategy) {
  try {
    StrategyRun run(kSpecs, sgd(), {.sets = {"strategy.no_such_option=1"}});
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("no_such_option"));
  }
}

}  // namespace
}  // namespace pipeline::strategies
