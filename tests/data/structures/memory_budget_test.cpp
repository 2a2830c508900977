#include "plugins/data/structures/file_reader.hpp"

#include <atomic>

#include <gtest/gtest.h>

#include "plugins/data/structures/ordered_workers.hpp"

namespace pipeline::structures {
namespace {

struct Done {
  MemoryBudget::Share share;
};

TEST(MemoryBudget, IsKeptButForOneAtATime) {
  MemoryBudget budget(100);
  std::atomic<int> used = 0, most_small = 0, large = 0, most_large = 0;
  const auto raise = [](std::atomic<int>& most, int value) {
    for (int before = most; before < value && !most.compare_exchange_weak(before, value);) {
    }
  };
  const auto work = [&](size_t i) {
    Done done{MemoryBudget::Share(budget)};
    const int bytes = i % 7 == 0 ? 250 : 30;  // some need more than there is
    done.share.set(10);
    done.share.set(static_cast<uint64_t>(bytes));
    if (bytes > 100) {
      raise(most_large, ++large);
      std::this_thread::yield();
      --large;
    } else {
      raise(most_small, used += bytes);
      std::this_thread::yield();
      used -= bytes;
    }
    done.share.set(1);
    return done;
  };
  size_t taken = 0;
  run_in_order<Done>(
      500, 8, work, [&](size_t, Done&&) { ++taken; }, [] {});
  EXPECT_EQ(taken, 500u);
  EXPECT_EQ(most_large.load(), 1);
  EXPECT_LE(most_small.load(), 130);  // three, and one beyond
}

// Each thread has a part of the budget and wants more than is left: they go on one after the other.
TEST(MemoryBudget, NobodyWaitsForEver) {
  for (int round = 0; round < 50; ++round) {
    MemoryBudget budget(100);
    std::atomic<int> ready = 0;
    size_t taken = 0;
    const auto work = [&](size_t) {
      Done done{MemoryBudget::Share(budget)};
      done.share.set(25);
      for (++ready; ready < 4;) std::this_thread::yield();
      done.share.set(90);
      done.share.set(20);  // what the result needs until it is taken
      return done;
    };
    run_in_order<Done>(
        4, 4, work, [&](size_t, Done&&) { ++taken; }, [] {});
    EXPECT_EQ(taken, 4u);
  }
}

}  // namespace
}  // namespace pipeline::structures
