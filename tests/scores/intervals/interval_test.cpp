#include "plugins/tasks/protein/scores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pipeline::protein {
namespace {

TEST(Interval, QuantilesAreThoseOfStudentsT) {
  for (const auto& [degrees, quantile] : {std::pair<size_t, double>{1, 12.7062},
                                          {2, 4.3027},
                                          {10, 2.2281},
                                          {11, 2.2010},
                                          {30, 2.0423},
                                          {100, 1.9840},
                                          {100000, 1.9600}})
    EXPECT_NEAR(t_quantile(degrees), quantile, 2e-4) << degrees;
}

TEST(Interval, IsThatOfARatioOverClusters) {
  // Mean 6/8; residuals -0.5, 0, 0.5; 4.3027 sqrt(0.5 * 3/2) / 8 = 0.4658 on both sides.
  const std::vector<Part> parts{{1, 2}, {3, 4}, {2, 2}};
  const auto interval = interval_of_mean(parts);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 0.75 - 0.4658, 1e-4);
  EXPECT_NEAR(interval->high, 0.75 + 0.4658, 1e-4);
}

TEST(Interval, OfOneClusterThereIsNone) {
  EXPECT_FALSE(interval_of_mean(std::vector<Part>{{1, 2}}));
  EXPECT_FALSE(interval_of_mean({}));
}

// Shares of 0.3 on average that differ from cluster to cluster, as accuracies do: 95 of 100 intervals hold
// the 0.3, with few clusters, too.
TEST(Interval, HoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(1);
  for (const size_t clusters : {4, 9, 60}) {
    int held = 0;
    constexpr int kTimes = 4000;
    for (int time = 0; time < kTimes; ++time) {
      std::vector<Part> parts;
      for (size_t c = 0; c < clusters; ++c) {
        const double share = 0.3 + std::normal_distribution(0.0, 0.05)(random);
        const int size = std::uniform_int_distribution(50, 150)(random);
        parts.push_back({static_cast<double>(std::binomial_distribution(size, share)(random)),
                         static_cast<double>(size)});
      }
      const auto interval = interval_of_mean(parts);
      held += interval->low <= 0.3 && 0.3 <= interval->high ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(held) / kTimes, 0.95, 0.02) << clusters << " clusters";
  }
}

}  // namespace
}  // namespace pipeline::protein
