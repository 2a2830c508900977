#include "plugins/data/files/ordered_work.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>

#include <gtest/gtest.h>

namespace pipeline::files {
namespace {

TEST(OrderedWork, ResultsAreTakenInTheOrderOfTheJobs) {
  for (const unsigned threads : {0u, 1u, 4u}) {
    std::vector<int> taken;
    OrderedWork<int, int> work(
        threads,
        [](int&& job) {
          std::this_thread::sleep_for(std::chrono::microseconds(job % 7 * 100));
          return job * 2;
        },
        [&](int&& result) { taken.push_back(result); });
    for (int i = 0; i < 200; ++i) work.add(int(i));
    work.finish();
    ASSERT_EQ(taken.size(), 200u);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)], 2 * i);
  }
}

TEST(OrderedWork, FewJobsWait) {
  std::atomic<int> done = 0;
  int most = 0, taken = 0;
  OrderedWork<int, int> work(
      2, [&](int&& job) { return ++done, job; }, [&](int&&) { ++taken; });
  for (int i = 0; i < 500; ++i) {
    work.add(int(i));
    most = std::max(most, i + 1 - taken);
  }
  work.finish();
  EXPECT_LE(most, 8);
  EXPECT_EQ(done, 500);
}

TEST(OrderedWork, AnErrorIsThrownInItsTurnAndNothingHangs) {
  int taken = 0;
  OrderedWork<int, int> work(
      3,
      [](int&& job) {
        if (job == 5) throw std::runtime_error("five");
        return job;
      },
      [&](int&&) { ++taken; });
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) work.add(int(i));
        work.finish();
      },
      std::runtime_error);
  EXPECT_EQ(taken, 5);
}

}  // namespace
}  // namespace pipeline::files
