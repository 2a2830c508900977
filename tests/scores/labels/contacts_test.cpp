// How ranked contacts are judged.
#include "plugins/scores/labels/labels.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::labels {
namespace {

// A chain of 40 residues, all pairs at least six apart known; contacts: 0 with 30 and 1 with 10.
class ContactFigures : public ::testing::Test {
 protected:
  static constexpr size_t kLength = 40, kLeastApart = 6;

  ContactFigures()
      : odds_(kLength * kLength, -5), labels_(kLength * kLength, residues::kNoPair), positions_(kLength) {
    std::iota(positions_.begin(), positions_.end(), 0);
    for (size_t i = 0; i < kLength; ++i)
      for (size_t j = i + kLeastApart; j < kLength; ++j) labels_[i * kLength + j] = residues::kNoContact;
    labels_[30] = labels_[kLength + 10] = residues::kContact;
  }
  std::vector<float> figures() const { return contact_figures(odds_, labels_, positions_); }

  std::vector<float> odds_;
  std::vector<uint8_t> labels_;
  std::vector<int64_t> positions_;
};

TEST_F(ContactFigures, AreTheSharesOfTheLikeliestPairs) {
  odds_[30] = 3;
  odds_[kLength + 10] = 2;
  odds_[2 * kLength + 3] = 9;  // too near to count
  std::vector<float> one = figures();
  EXPECT_FLOAT_EQ(one[kTopL], 2.0f / 40);
  EXPECT_FLOAT_EQ(one[kTopL2], 2.0f / 20);
  EXPECT_FLOAT_EQ(one[kTopL5], 2.0f / 8);
  EXPECT_FLOAT_EQ(one[kLongL], 1.0f / 40) << "0 and 30 alone are 24 apart";
  EXPECT_FLOAT_EQ(one[kLongL5], 1.0f / 8);
  EXPECT_FLOAT_EQ(one[kArea], 1);
  EXPECT_FLOAT_EQ(one[kNearestL], 0) << "the 34 pairs six apart, and six of those seven apart";
  // The contact nine apart is behind so many that are as likely, in the order of the chain.
  odds_[kLength + 10] = -5;
  one = figures();
  EXPECT_FLOAT_EQ(one[kTopL], 1.0f / 40);
  EXPECT_LT(one[kArea], 1);
  odds_[30] = -9;
  EXPECT_FLOAT_EQ(figures()[kLongL5], 0);
}

TEST_F(ContactFigures, AreNoneWhereThereIsNothingToFind) {
  labels_[30] = residues::kNoContact;
  std::vector<float> one = figures();
  EXPECT_TRUE(std::isnan(one[kLongL])) << "no contact is so far apart";
  EXPECT_FALSE(std::isnan(one[kTopL]));
  labels_[kLength + 10] = residues::kNoPair;
  one = figures();
  for (const float value : one) EXPECT_TRUE(std::isnan(value));
  positions_.clear();
  for (const float value : contact_figures({}, {}, positions_)) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace pipeline::labels
