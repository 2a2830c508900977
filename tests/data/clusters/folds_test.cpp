#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/files/error.hpp"

namespace pipeline::clusters {
namespace {

using testing::ElementsAre;

TEST(AssignFolds, TheLargestGoesFirstAndAlwaysToTheEmptiest) {
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{5, 100, 60, 50, 20}, 3), ElementsAre(1, 0, 1, 2, 2));
}

TEST(AssignFolds, EqualsAreTakenInOrder) {
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{7, 7, 7, 7, 7}, 2), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{0, 0, 0}, 2), ElementsAre(0, 0, 0));
}

TEST(AssignFolds, FoldsAreNearlyEqual) {
  std::mt19937_64 engine(4);
  std::vector<uint64_t> clusters(60);
  for (uint64_t& residues : clusters) residues = 30 + engine() % 300;
  const std::vector<uint32_t> folds = assign_folds(clusters, 5);
  std::vector<uint64_t> residues(5);
  for (size_t i = 0; i < clusters.size(); ++i) residues.at(folds[i]) += clusters[i];
  const uint64_t mean = std::accumulate(clusters.begin(), clusters.end(), uint64_t{0}) / 5;
  for (const uint64_t fold : residues)
    EXPECT_NEAR(static_cast<double>(fold), static_cast<double>(mean), 0.02 * static_cast<double>(mean));
}

TEST(AssignFolds, ThereMayBeMoreFoldsThanClusters) {
  EXPECT_THAT(assign_folds(std::vector<uint64_t>{3, 4}, 5), ElementsAre(1, 0));
  EXPECT_THAT(assign_folds({}, 5), ElementsAre());
}

TEST(AssignFolds, NoFoldsAreAnError) {
  EXPECT_THROW(assign_folds(std::vector<uint64_t>{1}, 0), files::DataError);
}

}  // namespace
}  // namespace pipeline::clusters
