// The harness itself: ranks that are threads.
#include "tests/strategies/ranks.hpp"

#include <gmock/gmock.h>

#include "core/base/abi_values.hpp"

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

// A group of some ranks numbers them anew: what goes wrong in it says which of the run's they are.
TEST(Ranks, AGroupOfSomeNamesThem) {
  on_ranks(4, [](const Rank& rank) {
    const int32_t first = rank.rank % 2;
    const PartGroup group("pairs", {first, first + 2});
    const pl_communicator& view = group.view();
    EXPECT_EQ(view.rank, rank.rank / 2);
    float sum = static_cast<float>(rank.rank);
    const pl_buffer buffer = plugins::host_buffer(&sum, 1);
    pl_work* work = nullptr;
    check(view.api->all_reduce(view.comm, &buffer, PL_REDUCE_SUM, &work));
    check(view.api->wait_host(view.comm, work, 0));
    EXPECT_EQ(sum, static_cast<float>(2 * first + 2));
    rank.group->barrier().wait();
    view.api->abort(view.comm, to_pl("the test wants it"));
    pl_error* error = view.api->all_reduce(view.comm, &buffer, PL_REDUCE_SUM, &work);
    if (error == nullptr) error = view.api->wait_host(view.comm, work, 0);
    ASSERT_NE(error, nullptr);
    EXPECT_THAT(std::string(pipeline::view(plugins::host_table().error_message(error))),
                HasSubstr("(in the group of ranks " + std::to_string(first) + ", " +
                          std::to_string(first + 2) + ")"));
    plugins::host_table().error_free(error);
    rank.group->barrier().wait();
  });
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
