// Figures of labels, against values that other packages give.
#include <cmath>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace pipeline::labels
