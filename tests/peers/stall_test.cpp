// Ranks that hang: stopped processes, and work that is only long.
#include <gmock/gmock.h>
#include <signal.h>

#include <string>
#include <thread>

#include "core/peers/peers.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr Milliseconds kStall{1000};

Options watching(Heard heard = {}) {
  Options options;
  options.stall = kStall;
  options.on_failure = std::move(heard);
  return options;
}

void wait_for_the_stall(Peers& peers) {
  peers.at("train", 118);
  peers.barrier("ready");
  peers.barrier("never");
}

void load_for_long(Peers& peers) {
  peers.at("data.load", 7);
  peers.barrier("ready");
  std::this_thread::sleep_for(seconds(100));
}

TEST(Stall, OfAStoppedRankSaysWhereItWas) {
  Group run(3);
  const Process stopped(run.world(1), watching(), load_for_long);
  Process waiting(run.world(2), watching(), wait_for_the_stall);
  Heard heard;
  Peers peers(run.world(0), watching(heard));
  peers.at("train", 118);
  peers.barrier("ready");
  std::this_thread::sleep_for(kStall / 2);  // its state is known by then
  stopped.signal(SIGSTOP);
  EXPECT_FALSE(heard.wait(kStall / 4));  // its kernel answers: not a failure yet
  const std::string thrown = error_of([&] { peers.barrier("never"); });
  const auto failure = heard.wait(seconds(20));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_TRUE(failure->by_peer_loss);
  EXPECT_TRUE(failure->stalled);
  EXPECT_THAT(failure->what,
              MatchesRegex("no progress for .* s: rank 1 \\(host .*\\) gives no sign of life for .* s "
                           "\\(stopped, or its machine hangs\\), last in data.load, step 7; ranks 0, 2 "
                           "\\(host .*\\) wait in barrier of 'never' \\(train, step 118\\)"));
  EXPECT_EQ(thrown, failure->what);
  EXPECT_EQ(waiting.wait(), 3);
}

TEST(Stall, OfARankThatHangsShowsTheCollectives) {
  Group run(2);
  std::vector<Heard> heard(2);
  const auto thrown = as_threads(2, [&](int32_t rank) {
    Options options = watching(heard[static_cast<std::size_t>(rank)]);
    if (rank == 0) options.collective = [] { return std::string("all_reduce #12 (4096 x float32) for 3 s"); };
    Peers peers(run.world(rank), options);
    peers.at(rank == 0 ? "train" : "data.load", 118);
    heard[static_cast<std::size_t>(rank)].wait(seconds(20));
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
  const auto failure = heard[0].wait(Milliseconds(0));
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what, HasSubstr(") in data.load, step 118, for "));
  EXPECT_THAT(failure->what, HasSubstr("waits in all_reduce #12 (4096 x float32) for 3 s (train, step 118)"));
  EXPECT_EQ(failure->rank, 1);
}

TEST(Stall, OfRank0IsNoticedByTheOthers) {
  Group run(2);
  const Process server(run.world(0), watching(), load_for_long);
  Heard heard;
  Peers peers(run.world(1), watching(heard));
  peers.at("train", 118);
  peers.barrier("ready");
  server.signal(SIGSTOP);
  const std::string thrown = error_of([&] { peers.barrier("never"); });
  const auto failure = heard.wait(seconds(20));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
  EXPECT_THAT(failure->what, HasSubstr("it has given no sign of life for"));
  EXPECT_THAT(failure->what, HasSubstr("in train, step 118"));
  EXPECT_EQ(thrown, failure->what);
}

// Buffers fill up, and the rank that sends is as stuck as one that waits.
TEST(Stall, OfRank0EndsASendThatIsUnderWay) {
  Group run(2);
  const Process server(run.world(0), watching(), load_for_long);
  Peers peers(run.world(1), watching());
  peers.barrier("ready");
  server.signal(SIGSTOP);
  EXPECT_THAT(error_of([&] { peers.all_gather("much", std::string(100'000'000, 'x')); }),
              HasSubstr("it has given no sign of life for"));
}

TEST(Stall, StoppedTogetherIsNone) {
  Group run(2);
  const Process server(run.world(0), watching(), [](Peers& peers) {
    peers.barrier("ready");
    peers.barrier("again");
    ::_exit(0);
  });
  Process client(run.world(1), watching(), [](Peers& peers) {
    peers.barrier("ready");
    std::this_thread::sleep_for(Milliseconds(300));
    peers.barrier("again");
  });
  std::this_thread::sleep_for(Milliseconds(200));
  server.signal(SIGSTOP);
  client.signal(SIGSTOP);
  std::this_thread::sleep_for(2 * kStall);
  server.signal(SIGCONT);
  client.signal(SIGCONT);
  EXPECT_EQ(client.wait(), 0);
}

TEST(Stall, LongWorkOfOneRankIsNone) {
  Group run(3);
  const auto thrown = as_ranks(run, watching(), [](int32_t rank, Peers& peers) {
    if (rank == 1)
      for (int i = 0; i < 12; ++i) {
        std::this_thread::sleep_for(kStall / 8);
        i % 2 == 0 ? peers.progress() : peers.at("prepare", static_cast<uint64_t>(i));
      }
    peers.barrier("prepared");
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Stall, OfOneProcessIsSeenToo) {
  Heard heard;
  Peers peers(World{}, watching(heard));
  peers.at("prepare", 3);
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(kStall / 8);
    peers.progress();
  }
  EXPECT_EQ(heard.times(), 0);
  const auto failure = heard.wait(seconds(20));
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what, HasSubstr("in prepare, step 3, for"));
}

}  // namespace
}  // namespace pipeline::peers
