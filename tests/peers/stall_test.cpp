// Ranks that hang: stopped processes, and work that is only long.
#include <signal.h>

#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/peers/join.hpp"
#include "core/peers/peers.hpp"
#include "core/peers/server.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr Milliseconds kStall{1000};

PeersOptions watching(Heard heard = {}) {
  PeersOptions options;
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
    PeersOptions options = watching(heard[static_cast<std::size_t>(rank)]);
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

const std::vector<std::string> kHosts = {"a", "a", "a", "b"};

std::string nowhere(int32_t) { return {}; }

State state(std::string phase, uint64_t step, double elapsed, uint64_t moves, std::string collective = {}) {
  return {std::move(phase), step, elapsed, moves, std::move(collective)};
}

TEST(StallWatch, SaysWhoHoldsUpWhom) {
  StallWatch watch(kHosts, Seconds(40));
  for (int second = 0; second <= 42; ++second) {
    EXPECT_FALSE(watch.check(Seconds(second - 2.5), nowhere));
    for (int32_t rank = 0; rank < 3; ++rank)
      watch.heard(rank,
                  state("train", 118, second, 7,
                        "all_reduce #1871 (4096 x float32) for " + std::to_string(second - rank) + " s"),
                  Seconds(second));
    watch.heard(3, state("data.load", 118, second, 9), Seconds(second));
  }
  const auto stall = watch.check(Seconds(42), nowhere);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 3);
  EXPECT_EQ(stall->what,
            "no progress for 42 s: rank 3 (host b) in data.load, step 118, for 42 s; ranks 0-2 (host a) wait "
            "in all_reduce #1871 (4096 x float32) for 42 s (train, step 118)");
}

TEST(StallWatch, NamesWhoGivesNoSignOfLifeFirst) {
  StallWatch watch(kHosts, Seconds(40));
  for (int32_t rank = 0; rank < 4; ++rank) watch.heard(rank, state("train", 5, 0, 1), Seconds(2));
  for (int second = 3; second <= 42; ++second)
    for (int32_t rank = 1; rank < 4; ++rank)
      watch.heard(rank, state("train", 5, second - 2, 1), Seconds(second));
  const auto stall =
      watch.check(Seconds(42), [](int32_t rank) { return rank == 2 ? "barrier of 'epoch'" : ""; });
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 0);
  EXPECT_EQ(stall->what,
            "no progress for 40 s: rank 0 (host a) gives no sign of life for 40 s (stopped, or its machine "
            "hangs), last in train, step 5; ranks 1, 3 in train, step 5, for 40 s; rank 2 (host a) waits in "
            "barrier of 'epoch' (train, step 5)");
}

TEST(StallWatch, OneRankThatMovesIsEnough) {
  StallWatch watch(kHosts, Seconds(10));
  for (int second = 1; second < 100; ++second) {
    for (int32_t rank = 0; rank < 3; ++rank) watch.heard(rank, state("wait", 0, second, 1), Seconds(second));
    watch.heard(3, state("prepare", 0, second, static_cast<uint64_t>(second)), Seconds(second));
    EXPECT_FALSE(watch.check(Seconds(second), nowhere));
  }
}

TEST(StallWatch, WhoHasLeftIsNotWaitedFor) {
  StallWatch watch(kHosts, Seconds(10));
  for (int32_t rank = 0; rank < 4; ++rank) watch.left(rank);
  EXPECT_FALSE(watch.check(Seconds(1000), nowhere));
}

TEST(StallWatch, ZeroIsNever) {
  StallWatch watch(kHosts, Seconds(0));
  EXPECT_FALSE(watch.check(Seconds(1e6), nowhere));
}

// A process that was stopped and goes on does not count the time in between.
TEST(AwakeClock, StandsStillWhileTheProcessDoes) {
  AwakeClock clock(Seconds(0.01));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(clock.tick());
  EXPECT_LE(clock.now(), Seconds(0.02));
  EXPECT_FALSE(clock.tick() && clock.now() < Seconds(0.03));
}

TEST(Pack, GivesBackWhatItTook) {
  const std::vector<std::string> parts = {"", "one", std::string(5000, 'x'), std::string("\0\1", 2)};
  EXPECT_EQ(unpack(pack(parts), 4), parts);
  EXPECT_EQ(unpack(pack({}), 0), std::vector<std::string>());
}

TEST(Pack, DamageIsAnError) {
  const std::string packed = pack({"one", "two"});
  EXPECT_THROW(unpack(packed.substr(0, 7), 1), Error);
  EXPECT_THROW(unpack(packed.substr(0, packed.size() - 1), 2), Error);
  EXPECT_THROW(unpack(packed + "x", 2), Error);
  EXPECT_THROW(unpack(packed, 3), Error);
}

TEST(Rounds, EachKindRepliesInItsWay) {
  Rounds rounds(2);
  const auto replies = [&](Collective kind) {
    EXPECT_FALSE(rounds.add(1, kind, "c", "b"));
    auto result = rounds.add(0, kind, "c", "a");
    return std::pair(*result->at(0), *result->at(1));
  };
  const std::string all = pack({"a", "b"}), none;
  EXPECT_EQ(replies(Collective::all_gather), std::pair(all, all));
  EXPECT_EQ(replies(Collective::gather), std::pair(all, none));
  EXPECT_EQ(replies(Collective::broadcast), std::pair(none, std::string("a")));
  EXPECT_EQ(replies(Collective::barrier), std::pair(none, none));
}

TEST(Rounds, ChannelsAreApart) {
  Rounds rounds(2);
  EXPECT_FALSE(rounds.add(0, Collective::barrier, "one", ""));
  EXPECT_FALSE(rounds.add(1, Collective::gather, "two", ""));
  EXPECT_EQ(rounds.waits_in(0), "barrier of 'one'");
  EXPECT_EQ(rounds.waits_for(0), "gather of 'two'");
  EXPECT_TRUE(rounds.add(1, Collective::barrier, "one", ""));
  EXPECT_EQ(rounds.waits_in(0), "");
}

TEST(Rounds, RanksOutOfStepAreNamed) {
  Rounds rounds(3);
  rounds.add(2, Collective::gather, "evaluation", "");
  EXPECT_EQ(error_of([&] { rounds.add(1, Collective::barrier, "evaluation", ""); }),
            "it calls barrier of 'evaluation' where rank 2 calls gather: all ranks have to call the same "
            "exchanges of a channel in the same order");
  EXPECT_EQ(error_of([&] { rounds.add(2, Collective::gather, "evaluation", ""); }),
            "it calls gather of 'evaluation' from two threads at once");
}

TEST(RankList, JoinsNeighbours) {
  EXPECT_EQ(list_of({3}), "rank 3");
  EXPECT_EQ(list_of({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7-8");
  EXPECT_EQ(list_of({0, 2}, {"a", "b", "a"}), "ranks 0, 2 (host a)");
  EXPECT_EQ(list_of({0, 1}, {"a", "b", "a"}), "ranks 0-1");
}

}  // namespace
}  // namespace pipeline::peers
