// Batches in order, whoever loads them and whatever happens to one.
#include "core/train/data/prefetcher.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "tests/plugins/zoo.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Holds loads up until the test lets them go on.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
  }
  // Whether so many come within a while.
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return arrived_ >= count; });
  }
  int arrived() {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int arrived_ = 0;
};

// Time enough for a worker that would do what it should not.
void give_time() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

// Samples are numbers; the task cannot load number 13.
class PrefetcherTest : public testing::TestWithParam<unsigned> {
 protected:
  // One sample a batch: first, first + 1, ... end - 1. Some take longer than those after them.
  static Prefetcher::Sequence numbers(uint64_t first, uint64_t end) {
    return [=](uint64_t index) -> std::optional<LoadRequest> {
      if (index % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (first + index >= end) return std::nullopt;
      return LoadRequest{.ids = {first + index}};
    };
  }
  // All that is left, up to the end of the sequence.
  static std::vector<uint64_t> rest_of(Prefetcher& prefetcher) {
    std::vector<uint64_t> ids;
    while (const auto batch = prefetcher.next()) ids.push_back(batch->ids()[0]);
    return ids;
  }
  Prefetcher of(Prefetcher::Options options, Prefetcher::Sequence sequence) const {
    return Prefetcher(task_, options, std::move(sequence));
  }

  pl_context context_{"zoo"};
  const plugins::Task task_{plugins::Plugin::load(plugins::zoo("unlucky")), context_, nullptr};
};

TEST_P(PrefetcherTest, HandsOutInOrderUntilTheEnd) {
  Prefetcher prefetcher = of({.workers = GetParam(), .ahead = 6}, numbers(100, 140));
  std::vector<uint64_t> expected;
  for (uint64_t id = 100; id < 140; ++id) expected.push_back(id);
  EXPECT_EQ(rest_of(prefetcher), expected);
  EXPECT_FALSE(prefetcher.next()) << "there is nothing after the end";
}

TEST_P(PrefetcherTest, ASequenceMayBeEmpty) {
  Prefetcher prefetcher = of({.workers = GetParam()}, numbers(0, 0));
  prefetcher.wait_until_full();
  EXPECT_FALSE(prefetcher.next());
}

TEST_P(PrefetcherTest, AnErrorArrivesInItsPlace) {
  Prefetcher prefetcher = of({.workers = GetParam(), .ahead = 8}, numbers(10, 20));
  for (const uint64_t id : {10, 11, 12}) EXPECT_THAT(prefetcher.next()->ids(), ElementsAre(id));
  for (int i = 0; i < 2; ++i)  // the error stays there
    EXPECT_THAT(tests::message_of<Error>([&] { prefetcher.next(); }), HasSubstr("batch_info"));
}

TEST_P(PrefetcherTest, AnEmptyMicroBatchIsABatchOfItsOwn) {
  Prefetcher prefetcher =
      of({.workers = GetParam(), .ahead = 2}, [](uint64_t index) -> std::optional<LoadRequest> {
        if (index == 4) return std::nullopt;
        return index % 2 == 0 ? LoadRequest{.ids = {index}} : LoadRequest{};
      });
  std::vector<bool> loaded;
  while (const auto batch = prefetcher.next()) loaded.push_back(static_cast<bool>(*batch));
  EXPECT_THAT(loaded, ElementsAre(true, false, true, false));
}

TEST_P(PrefetcherTest, MayEndWithBatchesThatNobodyAskedFor) {
  Prefetcher prefetcher = of({.workers = GetParam(), .ahead = 4}, numbers(7, 100));
  EXPECT_THAT(prefetcher.next()->ids(), ElementsAre(7));
  // The prefetcher's destructor finds workers that wait for room.
}

INSTANTIATE_TEST_SUITE_P(Workers, PrefetcherTest, testing::Values(0, 1, 4));

TEST_F(PrefetcherTest, LoadsOnAllWorkersAtOnce) {
  Gate gate;
  Prefetcher prefetcher = of({.workers = 3, .ahead = 3}, [&](uint64_t index) {
    gate.pass();
    return std::optional(LoadRequest{.ids = {index}});
  });
  EXPECT_TRUE(gate.wait_for(3));
  gate.open();
  EXPECT_THAT(prefetcher.next()->ids(), ElementsAre(0));
}

TEST_F(PrefetcherTest, HoldsNoMoreThanItMay) {
  Gate gate;
  Prefetcher prefetcher = of({.workers = 8, .ahead = 3}, [&](uint64_t index) {
    gate.pass();
    return std::optional(LoadRequest{.ids = {index}});
  });
  EXPECT_TRUE(gate.wait_for(3));
  give_time();
  EXPECT_EQ(gate.arrived(), 3) << "being loaded";
  gate.open();
  prefetcher.wait_until_full();
  give_time();
  EXPECT_EQ(gate.arrived(), 3) << "loaded";
  EXPECT_THAT(prefetcher.next()->ids(), ElementsAre(0));
  EXPECT_TRUE(gate.wait_for(4)) << "there is room for one more";
  give_time();
  EXPECT_EQ(gate.arrived(), 4);
}

TEST_F(PrefetcherTest, HoldsTheOneThatIsAskedForAtLeast) {
  Prefetcher prefetcher = of({.workers = 2, .ahead = 0}, numbers(0, 3));
  EXPECT_THAT(rest_of(prefetcher), ElementsAre(0, 1, 2));
}

TEST_F(PrefetcherTest, IsFullWhenAllThatItMayHoldIsLoaded) {
  std::atomic<int> loaded = 0;
  Prefetcher prefetcher = of({.workers = 2, .ahead = 5}, [&](uint64_t index) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++loaded;
    return std::optional(LoadRequest{.ids = {index}});
  });
  prefetcher.wait_until_full();
  EXPECT_EQ(loaded, 5);
}

TEST_F(PrefetcherTest, IsFullAtTheEndOfAShortSequence) {
  Prefetcher prefetcher = of({.workers = 2, .ahead = 50}, numbers(0, 2));
  prefetcher.wait_until_full();
  EXPECT_THAT(rest_of(prefetcher), ElementsAre(0, 1));
}

TEST_F(PrefetcherTest, WaitingUntilFullFindsAnErrorThatIsNotDueYet) {
  Prefetcher prefetcher = of({.workers = 2, .ahead = 8}, numbers(10, 30));
  EXPECT_THAT(tests::message_of<Error>([&] { prefetcher.wait_until_full(); }), HasSubstr("batch_info"));
  EXPECT_THAT(prefetcher.next()->ids(), ElementsAre(10)) << "what is before it can be had";
}

TEST_F(PrefetcherTest, WaitsForLoadsUnderWayWhenItEnds) {
  Gate gate;
  std::atomic<int> ended = 0;
  std::optional<Prefetcher> prefetcher(std::in_place, task_, Prefetcher::Options{.workers = 3, .ahead = 100},
                                       [&](uint64_t index) -> std::optional<LoadRequest> {
                                         gate.pass();
                                         ++ended;
                                         return LoadRequest{.ids = {index}};
                                       });
  EXPECT_TRUE(gate.wait_for(3));
  std::atomic<bool> gone = false;
  std::thread owner([&] {
    prefetcher.reset();
    gone = true;
  });
  give_time();
  EXPECT_FALSE(gone);
  gate.open();
  owner.join();
  EXPECT_EQ(ended, 3) << "all that had begun, and no more began";
  EXPECT_EQ(gate.arrived(), 3);
}

}  // namespace
}  // namespace pipeline::train
