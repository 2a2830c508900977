#include "core/peers/stall_watch.hpp"

#include <gtest/gtest.h>

namespace pipeline::peers {
namespace {

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

}  // namespace
}  // namespace pipeline::peers
