// Figures of labels, against values that other packages give.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/labels/labels.hpp"

namespace pipeline::labels {
namespace {

TEST(Spearman, IsTheCorrelationOfRanks) {
  const auto of = [](std::vector<double> a, std::vector<double> b) { return spearman(a, b); };
  EXPECT_NEAR(*of({1, 2, 3, 4}, {10, 20, 30, 1000}), 1, 1e-12);
  EXPECT_NEAR(*of({1, 2, 3, 4}, {4, 3, 2, 1}), -1, 1e-12);
  // Pearson's correlation of the ranks 0, 1.5, 1.5, 3, 4 and 1, 0, 3.5, 3.5, 2: 3.75 / 9.5.
  EXPECT_NEAR(*of({1, 2, 2, 3, 5}, {2, 1, 4, 4, 3}), 3.75 / 9.5, 1e-12);
  EXPECT_EQ(of({1, 1}, {1, 2}), std::nullopt);
  EXPECT_EQ(of({1}, {1}), std::nullopt);
  EXPECT_EQ(of({}, {}), std::nullopt);
  EXPECT_TRUE(std::isnan(*of({1, NAN, 3}, {1, 2, 3})));
}

TEST(AreaUnderRoc, IsTheShareOfPairsInTheirOrder) {
  const auto of = [](std::vector<double> scores, std::vector<uint8_t> is) {
    return area_under_roc(scores, is);
  };
  // The example of sklearn.metrics.roc_auc_score.
  EXPECT_NEAR(*of({0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1}), 0.75, 1e-12);
  EXPECT_NEAR(*of({0.5, 0.5, 0.5}, {0, 1, 0}), 0.5, 1e-12);
  EXPECT_NEAR(*of({1, 2, 2, 3}, {0, 1, 0, 1}), 3.5 / 4, 1e-12);
  EXPECT_EQ(of({1, 2}, {1, 1}), std::nullopt);
  EXPECT_TRUE(std::isnan(*of({NAN, NAN, NAN}, {0, 1, 0})));
}

TEST(Confusion, HasTheFiguresOfTheField) {
  // sklearn: y_true [1, 1, 1, 0], y_pred [1, 0, 1, 1]: matthews_corrcoef -0.333, f1 macro 1/3, accuracy 0.5.
  Confusion two(2);
  two.add(1, 1), two.add(1, 0), two.add(1, 1), two.add(0, 1);
  EXPECT_NEAR(two.mcc(), -1.0 / 3, 1e-12);
  EXPECT_NEAR(two.accuracy(), 0.5, 1e-12);
  EXPECT_NEAR(two.macro_f1(), (0 + 2 * 2.0 / 6) / 2, 1e-12);
  // Three classes, of which one is never there: y_true [0, 0, 1, 1, 1, 0], y_pred [0, 1, 1, 1, 2, 0].
  Confusion three(3);
  for (const auto& [right, predicted] : {std::pair(0, 0), {0, 1}, {1, 1}, {1, 1}, {1, 2}, {0, 0}})
    three.add(static_cast<size_t>(right), static_cast<size_t>(predicted));
  EXPECT_NEAR(three.accuracy(), 4.0 / 6, 1e-12);
  EXPECT_NEAR(three.mcc(), (4.0 * 6 - (3 * 2 + 3 * 3)) / std::sqrt((36.0 - (4 + 9 + 1)) * (36 - 18)), 1e-12);
  EXPECT_NEAR(three.macro_f1(), (2 * 2.0 / 5 + 2 * 2.0 / 6) / 2, 1e-12);
  Confusion one(2);
  one.add(0, 0), one.add(0, 0);
  EXPECT_EQ(one.mcc(), 0);
}

// How ranked contacts are judged.

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

// seqeval 1.2.2's get_entities() of the same tags.
TEST(Entities, AreThoseOfSeqeval) {
  const auto of = [](std::vector<std::string_view> tags) { return entities_of(tags); };
  using Entities = std::vector<Entity>;
  EXPECT_EQ(of({"B-PER", "I-PER", "O", "B-LOC"}), (Entities{{"PER", 0, 2}, {"LOC", 3, 4}}));
  EXPECT_EQ(of({"B-PER", "B-PER", "I-LOC"}), (Entities{{"PER", 0, 1}, {"PER", 1, 2}, {"LOC", 2, 3}}));
  EXPECT_EQ(of({"O", "I-PER", "I-PER", "O"}), (Entities{{"PER", 1, 3}})) << "begins all the same";
  EXPECT_EQ(of({"I-PER", "I-LOC"}), (Entities{{"PER", 0, 1}, {"LOC", 1, 2}}));
  EXPECT_EQ(of({"B-a-b", "E-a-b", "S-c"}), (Entities{{"a-b", 0, 2}, {"c", 2, 3}}));
  EXPECT_EQ(of({"B", "I", "O"}), (Entities{{"_", 0, 2}}));
  EXPECT_EQ(of({"O", "O"}), Entities());
  EXPECT_EQ(of({}), Entities());
  EXPECT_TRUE(are_entity_tags({"O", "B-PER"}));
  EXPECT_FALSE(are_entity_tags({"NOUN", "B", "X-Y"}));
}

}  // namespace
}  // namespace pipeline::labels
