#include "plugins/data/sources/mixture.hpp"

#include <map>
#include <set>

#include <gmock/gmock.h>

namespace pipeline::sources {
namespace {

using testing::ElementsAre;

// How often an epoch has each record of a source.
std::map<uint64_t, int> records_of(const Mixture& mixture, size_t source, uint64_t epoch) {
  std::map<uint64_t, int> counts;
  for (uint64_t sample = 0; sample < mixture.size(); ++sample) {
    const Mixture::Place place = mixture(epoch, sample);
    if (place.source == source) ++counts[place.record];
  }
  return counts;
}

TEST(MixtureTest, WithoutSharesIsOneSourceBehindTheOther) {
  const Mixture mixture({3, 0, 2}, {}, 1);
  ASSERT_EQ(mixture.size(), 5u);
  std::vector<std::pair<size_t, uint64_t>> places;
  for (uint64_t sample = 0; sample < 5; ++sample)
    places.emplace_back(mixture(7, sample).source, mixture(7, sample).record);
  EXPECT_THAT(places, ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(0, 2), std::pair(2, 0),
                                  std::pair(2, 1)));
}

TEST(MixtureTest, WeightsDealOutAsManySamplesAsThereAreRecords) {
  const Mixture mixture({1000, 100, 900}, {.weights = {1, 2, 1}, .repeats = {}}, 1);
  EXPECT_EQ(mixture.size(), 2000u);
  EXPECT_EQ(mixture.samples_of(0), 500u);
  EXPECT_EQ(mixture.samples_of(1), 1000u);
  EXPECT_EQ(mixture.samples_of(2), 500u);
  for (uint64_t record = 0; record < 100; ++record) EXPECT_EQ(records_of(mixture, 1, 0)[record], 10);
  EXPECT_EQ(mixture.line("code", 1),
            "source     code: 1000 of 2000 samples of an epoch (50.0%), its 100 records 10.00 times each");
}

TEST(MixtureTest, PassesRunOnFromEpochToEpoch) {
  const Mixture mixture({10, 7}, {.weights = {}, .repeats = {0.3, 1.5}}, 5);
  EXPECT_EQ(mixture.samples_of(0), 3u);
  EXPECT_EQ(mixture.samples_of(1), 11u);
  std::map<uint64_t, int> of_first, of_second;
  std::set<std::set<uint64_t>> epochs;
  for (uint64_t epoch = 0; epoch < 70; ++epoch) {
    std::set<uint64_t> records;
    for (const auto& [record, count] : records_of(mixture, 0, epoch)) {
      of_first[record] += count;
      records.insert(record);
    }
    epochs.insert(records);
    for (const auto& [record, count] : records_of(mixture, 1, epoch)) of_second[record] += count;
  }
  for (uint64_t record = 0; record < 10; ++record) EXPECT_EQ(of_first[record], 21) << record;
  for (uint64_t record = 0; record < 7; ++record) EXPECT_EQ(of_second[record], 110) << record;
  EXPECT_GT(epochs.size(), 20u) << "other records in other epochs";
}

TEST(MixtureTest, IsAFunctionOfTheSeed) {
  const Shares shares{.weights = {}, .repeats = {0.5}};
  std::vector<uint64_t> orders[3];
  for (int i = 0; i < 3; ++i) {
    const Mixture mixture({100}, shares, i == 2 ? 2 : 1);
    for (uint64_t sample = 0; sample < mixture.size(); ++sample)
      orders[i].push_back(mixture(3, sample).record);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}

TEST(MixtureTest, AShareThatIsTooSmallIsOneSample) {
  const Mixture mixture({10, 10}, {.weights = {1, 1e-9}, .repeats = {}}, 1);
  EXPECT_EQ(mixture.samples_of(1), 1u);
}

}  // namespace
}  // namespace pipeline::sources
