
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::intervals {
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
  const std::vector<ClusterSum> parts{{1, 2}, {3, 4}, {2, 2}};
  const auto interval = interval_of_mean(parts);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 0.75 - 0.4658, 1e-4);
  EXPECT_NEAR(interval->high, 0.75 + 0.4658, 1e-4);
}

TEST(Interval, OfOneClusterThereIsNone) {
  EXPECT_FALSE(interval_of_mean(std::vector<ClusterSum>{{1, 2}}));
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
      std::vector<ClusterSum> parts;
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

TEST(Resampled, TakesWholeClusters) {
  // Forty clusters of 25 equal values: the mean has the standard error of forty values, not of a thousand.
  std::vector<uint64_t> clusters;
  std::vector<double> values;
  for (uint64_t cluster = 0; cluster < 40; ++cluster)
    for (int i = 0; i < 25; ++i)
      clusters.push_back(cluster), values.push_back(static_cast<double>(cluster % 2));
  const auto mean = [&](std::span<const size_t> drawn) -> std::optional<double> {
    double sum = 0;
    for (const size_t i : drawn) sum += values[i];
    return sum / static_cast<double>(drawn.size());
  };
  const auto bounds = resampled(clusters, mean);
  ASSERT_TRUE(bounds);
  const double half = 1.96 * 0.5 / std::sqrt(40.0);
  EXPECT_NEAR(bounds->low, 0.5 - half, 0.05);
  EXPECT_NEAR(bounds->high, 0.5 + half, 0.05);
  EXPECT_EQ(resampled(clusters, mean)->low, bounds->low) << "the same each time";
  const std::vector<uint64_t> one_cluster(clusters.size(), 7);
  EXPECT_FALSE(resampled(one_cluster, mean));
  EXPECT_FALSE(resampled(clusters, [](std::span<const size_t>) { return std::optional<double>(); }));
  const auto spoilt_by = [&](size_t sample) {
    return resampled(clusters, [&, sample](std::span<const size_t> drawn) -> std::optional<double> {
      return std::ranges::find(drawn, sample) != drawn.end() ? std::nan("") : *mean(drawn);
    });
  };
  EXPECT_FALSE(spoilt_by(0)) << "of a sample that is NaN";
  EXPECT_EQ(spoilt_by(clusters.size())->low, bounds->low);
}

}  // namespace
}  // namespace pipeline::intervals
