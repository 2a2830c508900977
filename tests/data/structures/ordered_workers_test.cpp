#include "plugins/data/files/ordered_work.hpp"

#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace pipeline::structures
