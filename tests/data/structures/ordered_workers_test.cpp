#include "plugins/data/files/ordered_work.hpp"

#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

#include "plugins/data/structures/file_reader.hpp"

namespace pipeline::structures {
namespace {

using files::run_in_order;

TEST(OrderedWorkers, ResultsComeInOrderFromAnyNumberOfThreads) {
  for (const unsigned threads : {0u, 1u, 3u, 8u}) {
    size_t next = 0;
    run_in_order<size_t>(
        500, threads, [](size_t i) { return i * i; },
        [&](size_t i, size_t&& result) {
          EXPECT_EQ(i, next++);
          EXPECT_EQ(result, i * i);
        },
        [] {});
    EXPECT_EQ(next, 500u);
  }
  run_in_order<int>(
      0, 4, [](size_t) { return 0; }, [](size_t, int&&) { FAIL(); }, [] {});
}

TEST(OrderedWorkers, StayCloseToTheOneWhoTakes) {
  std::atomic<size_t> begun = 0;
  run_in_order<int>(
      200, 2, [&](size_t) { return static_cast<int>(++begun); },
      [&](size_t i, int&&) { EXPECT_LE(begun.load(), i + 2 + 8); }, [] {});
}

TEST(OrderedWorkers, WhatAnyoneThrowsEndsThemAll) {
  const auto nothing = [](size_t, int&&) {};
  EXPECT_THROW(
      run_in_order<int>(
          100, 3, [](size_t i) { return i == 7 ? throw std::runtime_error("work") : 0; }, nothing, [] {}),
      std::runtime_error);
  EXPECT_THROW(
      run_in_order<int>(
          100, 3, [](size_t) { return 0; }, [](size_t, int&&) { throw std::logic_error("take"); }, [] {}),
      std::logic_error);
  EXPECT_THROW(run_in_order<int>(
                   100, 3, [](size_t) { return 0; }, nothing, [] { throw std::domain_error("idle"); }),
               std::domain_error);
}

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
