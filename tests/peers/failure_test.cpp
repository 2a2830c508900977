// What becomes of the others when a rank fails, is lost, or leaves.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/peers/peers.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

PeersOptions telling(Heard& heard) {
  PeersOptions options;
  options.on_failure = heard;
  return options;
}

// A rank that trains until it is killed or hears of a failure.
void wait_for_the_end(Peers& peers) {
  peers.at("train", 118);
  peers.barrier("ready");
  peers.barrier("never");
}

// A rank that trains for long, and never waits for the others.
void train_for_long(Peers& peers) {
  peers.at("train", 118);
  peers.barrier("ready");
  std::this_thread::sleep_for(seconds(100));
}

TEST(Failure, ReachesEveryRankWithItsText) {
  Group run(3);
  std::vector<Heard> heard(3);
  std::atomic<int> told = 0;
  const auto thrown = as_threads(3, [&](int32_t rank) {
    Heard& mine = heard[static_cast<std::size_t>(rank)];
    Peers peers(run.world(rank), telling(mine));
    peers.barrier("start");
    if (rank == 1) peers.fail("cannot read data.csv: it is gone");
    const auto failure = mine.wait(seconds(20));
    ++told;
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->rank, 1);
    EXPECT_EQ(failure->what, "cannot read data.csv: it is gone");
    EXPECT_FALSE(failure->by_peer_loss);
    EXPECT_FALSE(failure->lasting);
    while (told < 3) std::this_thread::sleep_for(Milliseconds(1));
    peers.barrier("after it");
  });
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(thrown[static_cast<std::size_t>(rank)],
              std::string("rank 1 (host ") + host + "): cannot read data.csv: it is gone");
    EXPECT_EQ(heard[static_cast<std::size_t>(rank)].times(), 1);
  }
}

TEST(Failure, OfTheConfigurationWouldComeAgain) {
  Group run(2);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 0) peers.fail("the run has diverged", PL_ERROR_CONFIG);
    const auto failure = peers.failure(seconds(20));
    ASSERT_TRUE(failure);
    EXPECT_TRUE(failure->lasting);
    peers.barrier("never");
  });
  for (const std::string& error : thrown) EXPECT_THAT(error, HasSubstr("the run has diverged"));
}

TEST(Failure, EndsExchangesThatAreUnderWay) {
  Group run(3);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 2) {
      std::this_thread::sleep_for(Milliseconds(100));
      peers.fail("no luck");
    } else {
      const auto errors = as_threads(2, [&](int32_t thread) { peers.barrier(thread == 0 ? "one" : "two"); });
      for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("no luck"));
    }
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Failure, IsToldToOneWhoLeavesAtOnce) {
  Group run(2);
  std::vector<Heard> heard(2);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    Peers peers(run.world(rank), telling(heard[static_cast<std::size_t>(rank)]));
    if (rank == 0) peers.fail("no luck");
    peers.barrier("never");
  });
  for (const std::string& error : thrown) EXPECT_THAT(error, HasSubstr("no luck"));
  for (Heard& one : heard) EXPECT_EQ(one.times(), 1);
}

TEST(Failure, TheFirstOneWinsEverywhere) {
  Group run(4);
  std::vector<std::string> known(4);
  const auto thrown = as_ranks(run, {}, [&](int32_t rank, Peers& peers) {
    peers.barrier("start");
    peers.fail("failure of rank " + std::to_string(rank));
    known[static_cast<std::size_t>(rank)] = peers.failure()->what;
    while (!peers.failure(seconds(1))) {
    }
  });
  EXPECT_EQ(thrown, nothing_thrown(4));
  EXPECT_THAT(known, testing::Each(known.front()));
}

TEST(Failure, IsToldByAProcessThatEndsRightAfter) {
  for (int32_t failing = 0; failing < 2; ++failing) {
    Group run(2);
    const Process process(run.world(failing), {}, [](Peers& peers) {
      peers.barrier("start");
      peers.fail("a last word");
      ::_exit(1);
    });
    Heard heard;
    Peers peers(run.world(1 - failing), telling(heard));
    peers.barrier("start");
    const auto failure = heard.wait(seconds(20));
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->what, "a last word");
    EXPECT_EQ(failure->rank, failing);
  }
}

TEST(Failure, AKilledRankIsLost) {
  Group run(3);
  const Process first(run.world(1), {}, wait_for_the_end);
  Process second(run.world(2), {}, wait_for_the_end);
  Heard heard;
  Peers peers(run.world(0), telling(heard));
  peers.barrier("ready");
  first.signal(SIGKILL);
  const auto failure = heard.wait(seconds(20));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_TRUE(failure->by_peer_loss);
  EXPECT_FALSE(failure->stalled);
  EXPECT_THAT(failure->what, HasSubstr("rank 1 (host "));
  EXPECT_THAT(failure->what, HasSubstr("was lost: its connection broke without a word"));
  EXPECT_THAT(error_of([&] { peers.barrier("never"); }), HasSubstr("rank 1"));
  EXPECT_EQ(second.wait(), 3);  // its barrier threw
}

TEST(Failure, AKilledRank0IsLostByAll) {
  Group run(2);
  const Process server(run.world(0), {}, train_for_long);
  Heard heard;
  Peers peers(run.world(1), telling(heard));
  peers.barrier("ready");
  std::string thrown;
  std::thread waiting([&] { thrown = error_of([&] { peers.barrier("never"); }); });
  server.signal(SIGKILL);
  const auto failure = heard.wait(seconds(20));
  waiting.join();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
  EXPECT_TRUE(failure->by_peer_loss);
  EXPECT_THAT(failure->what, HasSubstr("rank 0 (at 127.0.0.1:"));
  EXPECT_EQ(thrown, failure->what);
}

TEST(Failure, AKillInAnExchangeOfManyBytesIsSeen) {
  Group run(3);
  const Process process(run.world(1), {}, [](Peers& peers) {
    const std::string bytes(4'000'000, 'x');
    for (;;) peers.all_gather("bytes", bytes);
  });
  const auto exchange = [](Peers& peers) {
    const std::string bytes(4'000'000, 'y');
    for (;;) peers.all_gather("bytes", bytes);
  };
  Process other(run.world(2), {}, exchange);
  Peers peers(run.world(0), {});
  std::thread killer([&] {
    std::this_thread::sleep_for(Milliseconds(300));
    process.signal(SIGKILL);
  });
  EXPECT_THAT(error_of([&] { exchange(peers); }), HasSubstr("rank 1 (host "));
  killer.join();
  EXPECT_EQ(other.wait(), 3);
}

TEST(Leaving, IsNoFailure) {
  for (int32_t leaving = 0; leaving < 3; ++leaving) {
    Group run(3);
    std::vector<Heard> heard(3);
    const auto thrown = as_threads(3, [&](int32_t rank) {
      Peers peers(run.world(rank), telling(heard[static_cast<std::size_t>(rank)]));
      peers.barrier("end");
      if (rank != leaving) std::this_thread::sleep_for(Milliseconds(200));
      EXPECT_FALSE(peers.failure());
    });
    EXPECT_EQ(thrown, nothing_thrown(3));
    for (Heard& one : heard) EXPECT_EQ(one.times(), 0);
  }
}

TEST(Leaving, EndsTheExchangesOfTheOthers) {
  Group run(3);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 1) {
      peers.leave();
      EXPECT_THAT(error_of([&] { peers.barrier("epoch"); }), HasSubstr("has left the run"));
    } else {
      peers.barrier("epoch");
    }
  });
  for (const std::size_t rank : {0, 2})
    EXPECT_THAT(thrown[rank],
                AllOf(HasSubstr("rank 1 (host "),
                      HasSubstr("has left the run, and others wait for it in barrier of 'epoch'")));
}

TEST(Leaving, OfRank0EndsTheExchangesOfTheOthers) {
  Group run(2);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    peers.barrier("epoch");
    if (rank == 1) {
      std::this_thread::sleep_for(Milliseconds(200));
      peers.barrier("epoch");
    }
  });
  EXPECT_EQ(thrown[0], "");
  EXPECT_EQ(thrown[1], "rank 0 has left the run: nothing can be exchanged any more");
}

// What rank 0 got last, the others get as well, however slow they are.
TEST(Leaving, OfRank0WaitsForWhatIsUnderWay) {
  Group run(3);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    const std::string bytes(10'000'000, 'x');
    EXPECT_EQ(peers.broadcast("last", rank == 0 ? bytes : std::string()).size(), bytes.size());
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

}  // namespace
}  // namespace pipeline::peers
