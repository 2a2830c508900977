// What ranks make of a step together: the same on all of them.
#include "core/train/session/metrics.hpp"
#include "core/train/step_reports.hpp"

#include <csignal>

#include <gmock/gmock.h>

#include "core/observe/console.hpp"
#include "core/observe/log.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

// What `part` returns on each of so many ranks, which are threads.
template <class Result>
std::vector<Result> on_ranks(int32_t count, const std::function<Result(size_t rank, ProcessGroup&)>& part,
                             size_t largest_exchange = 1000) {
  peers::Group group(count);
  std::vector<Result> results(static_cast<size_t>(count));
  const auto thrown = peers::as_threads(count, [&](int32_t rank) {
    observe::Console console(observe::Console::Mode::off);
    observe::Log log(console, observe::Level::error);
    ProcessGroup processes(group.world(rank), log,
                           {.rendezvous = std::chrono::seconds(20),
                            .stall = std::chrono::seconds(20),
                            .largest_exchange = largest_exchange});
    results[static_cast<size_t>(rank)] = part(static_cast<size_t>(rank), processes);
    processes.peers().barrier("end");
  });
  EXPECT_EQ(thrown, peers::nothing_thrown(count));
  return results;
}

std::vector<Boundary> agreed(const std::vector<Boundary>& ranks) {
  return on_ranks<Boundary>(static_cast<int32_t>(ranks.size()), [&](size_t rank, ProcessGroup& processes) {
    return agree(processes, ranks[rank]);
  });
}

std::vector<StepFacts> summed(const std::vector<std::vector<MicroBatchFacts>>& ranks) {
  return on_ranks<StepFacts>(static_cast<int32_t>(ranks.size()), [&](size_t rank, ProcessGroup& processes) {
    return sum_over_ranks(processes, ranks[rank]);
  });
}

auto metric(const std::string& name, double sum, double weight) {
  return AllOf(Field(&MetricSum::name, name), Field(&MetricSum::sum, sum), Field(&MetricSum::weight, weight));
}

TEST(Agree, ASignalOfOneRankReachesAll) {
  std::vector<Boundary> ranks(3);
  ranks[2].signal = SIGTERM;
  for (const Boundary& all : agreed(ranks)) EXPECT_EQ(all.signal, SIGTERM);
  ranks[1].signal = SIGUSR1;
  for (const Boundary& all : agreed(ranks)) EXPECT_EQ(all.signal, SIGUSR1) << "of the lowest rank";
}

TEST(Agree, NothingHappensUnlessARankHasSomething) {
  for (const Boundary& all : agreed(std::vector<Boundary>(2))) {
    EXPECT_EQ(all.signal, 0);
    EXPECT_FALSE(all.time_is_up);
    EXPECT_FALSE(all.save);
    EXPECT_FALSE(all.has_late);
    EXPECT_EQ(all.data_wait, 0);
    EXPECT_THAT(all.metrics, IsEmpty());
    EXPECT_THAT(all.late_metrics, IsEmpty());
  }
}

TEST(Agree, TimeIsUpAndASaveIsDueByTheFirstRanksClock) {
  std::vector<Boundary> ranks(3);
  ranks[0].time_is_up = ranks[1].save = true;
  for (const Boundary& all : agreed(ranks)) {
    EXPECT_TRUE(all.time_is_up);
    EXPECT_FALSE(all.save);
  }
  std::swap(ranks[0], ranks[1]);
  for (const Boundary& all : agreed(ranks)) {
    EXPECT_FALSE(all.time_is_up);
    EXPECT_TRUE(all.save);
  }
}

TEST(Agree, TheLongestWaitForDataCounts) {
  std::vector<Boundary> ranks(3);
  ranks[0].data_wait = 0.25;
  ranks[1].data_wait = 0.1 + 0.2;
  for (const Boundary& all : agreed(ranks)) EXPECT_EQ(all.data_wait, 0.1 + 0.2) << "to the bit";
}

TEST(Agree, MetricsAddUpByName) {
  std::vector<Boundary> ranks(3);
  ranks[0].metrics = {{"accuracy", 1, 2}};
  ranks[1].metrics = {{"rare", 5, 1}, {"accuracy", 2, 4}};
  ranks[2].metrics = {{"accuracy", 3, 8}};
  ranks[1].late_metrics = {{"late", 1, 1}};
  ranks[2].late_metrics = {{"late", 0.5, 2}};
  for (const Boundary& all : agreed(ranks)) {
    EXPECT_THAT(all.metrics, ElementsAre(metric("accuracy", 6, 14), metric("rare", 5, 1)));
    EXPECT_THAT(all.late_metrics, ElementsAre(metric("late", 1.5, 3)));
  }
}

TEST(Agree, LateMetricsOfAnyRankAreKnownToAll) {
  std::vector<Boundary> ranks(3);
  ranks[1].has_late = true;
  for (const Boundary& all : agreed(ranks)) EXPECT_TRUE(all.has_late);
}

TEST(Agree, OneProcessAgreesWithItself) {
  Boundary mine{.signal = SIGINT, .time_is_up = true, .save = true, .data_wait = 2, .has_late = true};
  mine.metrics = {{"accuracy", 1, 2}};
  mine.late_metrics = {{"late", 3, 4}};
  const Boundary all = agreed({mine})[0];
  EXPECT_EQ(all.signal, SIGINT);
  EXPECT_TRUE(all.time_is_up);
  EXPECT_TRUE(all.save);
  EXPECT_TRUE(all.has_late);
  EXPECT_EQ(all.data_wait, 2);
  EXPECT_THAT(all.metrics, ElementsAre(metric("accuracy", 1, 2)));
  EXPECT_THAT(all.late_metrics, ElementsAre(metric("late", 3, 4)));
}

// One rank, all or none have more than is exchanged at once.
TEST(Gather, TakesAnyLength) {
  std::vector<std::string> texts{std::string(100, 'a') + "1", "", std::string("\0x", 2)};
  struct Exchange {
    ProcessGroup::To to;
    size_t limit;
  };
  using To = ProcessGroup::To;
  for (const Exchange& exchange : {Exchange{To::all, 7}, {To::first, 7}, {To::all, 1000}, {To::all, 1}}) {
    const auto all = on_ranks<std::vector<std::string>>(
        3, [&](size_t rank, ProcessGroup& group) { return group.gather("texts", texts[rank], exchange.to); },
        exchange.limit);
    for (size_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(all[rank], rank == 0 || exchange.to == To::all ? texts : std::vector<std::string>{});
    texts[1] += "more";
  }
}

TEST(AddUp, GivesTheMetricsOfAllRanks) {
  const auto all = on_ranks<std::vector<MetricSum>>(3, [](size_t rank, ProcessGroup& processes) {
    return add_up(processes, {{"accuracy", static_cast<double>(rank), 2}});
  });
  for (const std::vector<MetricSum>& metrics : all)
    EXPECT_THAT(metrics, ElementsAre(metric("accuracy", 3, 6)));
}

// Weights whose sum depends on the order: a 1 is lost when it is added to the first one, and three of them
// together are not.
std::vector<MicroBatchFacts> micro_batches() {
  const std::vector<double> weights{1e16, 1, 1, 1, 0.1, 1e-300, 1, 1};
  std::vector<MicroBatchFacts> facts;
  for (uint64_t i = 0; i < weights.size(); ++i)
    facts.push_back({.index = i,
                     .weight = weights[i],
                     .samples = i == 4 ? 0 : 2 + i,
                     .tokens = i,
                     .positions = 10 * i,
                     .flops = weights[i] / 3});
  return facts;
}

StepFacts in_order() {
  StepFacts sum;
  sum.flops = 0;
  for (const MicroBatchFacts& f : micro_batches()) {
    sum.weight += f.weight;
    *sum.flops += *f.flops;
  }
  return sum;
}

void expect_the_sum(const StepFacts& sum) {
  EXPECT_EQ(sum.weight, in_order().weight);
  EXPECT_EQ(sum.flops, in_order().flops);
  EXPECT_THAT(sum.samples, ElementsAre(2, 3, 4, 5, 0, 7, 8, 9));
  EXPECT_EQ(sum.tokens, 28u);
  EXPECT_EQ(sum.positions, 280u);
}

TEST(SumOverRanks, OneProcessAddsInTheOrderOfTheMicroBatches) {
  std::vector<MicroBatchFacts> mine = micro_batches();
  expect_the_sum(summed({mine})[0]);
  std::ranges::reverse(mine);
  expect_the_sum(summed({mine})[0]);
}

TEST(SumOverRanks, HasTheSameBitsHoweverMicroBatchesAreDistributed) {
  const std::vector<MicroBatchFacts> all = micro_batches();
  const auto pick = [&](std::initializer_list<size_t> indices) {
    std::vector<MicroBatchFacts> picked;
    for (const size_t i : indices) picked.push_back(all[i]);
    return picked;
  };
  using Distribution = std::vector<std::vector<MicroBatchFacts>>;
  for (const Distribution& ranks : {Distribution{pick({0, 1, 2, 3}), pick({4, 5, 6, 7})},  // blocks
                                    Distribution{pick({0, 2, 4, 6}), pick({1, 3, 5, 7})},  // turns
                                    Distribution{pick({0, 1, 2}), pick({3, 4, 5}), pick({6, 7})},
                                    Distribution{pick({1, 2, 3, 4, 5, 6, 7}), {}, pick({0})}})
    for (const StepFacts& sum : summed(ranks)) expect_the_sum(sum);
}

TEST(SumOverRanks, FlopsAreKnownOnlyIfThoseOfAllMicroBatchesAre) {
  std::vector<std::vector<MicroBatchFacts>> ranks{{{.index = 0, .weight = 1, .flops = 2}},
                                                  {{.index = 1, .weight = 1, .flops = std::nullopt}}};
  for (const StepFacts& sum : summed(ranks)) {
    EXPECT_EQ(sum.flops, std::nullopt);
    EXPECT_EQ(sum.weight, 2);
  }
  ranks[1][0].flops = 0;
  for (const StepFacts& sum : summed(ranks)) EXPECT_EQ(sum.flops, 2);
}

TEST(SumOverRanks, AStepMayHaveNoWeight) {
  for (const StepFacts& sum : summed({{}, {{.index = 0, .weight = 0}}})) EXPECT_EQ(sum.weight, 0);
}

}  // namespace
}  // namespace pipeline::train
