#include "plugins/tasks/text/teacher_store.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pipeline::tasks::text {
namespace {

using transformer::LikeliestTokens;

// Three targets, whose last one has the last token of the vocabulary.
LikeliestTokens three_targets(const TeacherStore::Layout& layout) {
  const LikeliestTokens rows{at::arange(3 * layout.k, at::kLong).view({3, layout.k}),
                             at::arange(3 * layout.columns(), at::kFloat).neg().view({3, layout.columns()})};
  rows.ids[2][0] = layout.vocabulary - 1;
  return rows;
}

class LayoutOfAnswers : public testing::TestWithParam<TeacherStore::Layout> {};

TEST_P(LayoutOfAnswers, GivesBackWhatWasPacked) {
  const TeacherStore::Layout layout = GetParam();
  const LikeliestTokens rows = three_targets(layout);
  const std::string sample = layout.packed(rows);
  EXPECT_EQ(static_cast<int64_t>(sample.size()), 3 * layout.target_bytes());
  ASSERT_EQ(layout.targets(sample), 3);
  const LikeliestTokens found{at::zeros_like(rows.ids), at::zeros_like(rows.log_p)};
  layout.unpack(sample, found);
  EXPECT_TRUE(found.ids.equal(rows.ids));
  EXPECT_TRUE(found.log_p.equal(rows.log_p));
}

TEST_P(LayoutOfAnswers, HasNothingOfASampleWithoutTargets) {
  const TeacherStore::Layout layout = GetParam();
  EXPECT_EQ(layout.packed(three_targets(layout).rows(1, 0)), "");
  EXPECT_EQ(layout.targets(""), 0);
}

INSTANTIATE_TEST_SUITE_P(OfVocabularies, LayoutOfAnswers,
                         testing::Values(TeacherStore::Layout{.vocabulary = 300, .k = 4},
                                         TeacherStore::Layout{.vocabulary = 65536, .k = 4},
                                         TeacherStore::Layout{.vocabulary = 65537, .k = 4},
                                         TeacherStore::Layout{.vocabulary = 12, .k = 12}));

TEST(TeacherLayout, HasFewerBytesWhereTwoHoldAToken) {
  EXPECT_EQ((TeacherStore::Layout{.vocabulary = 65536, .k = 4}.target_bytes()), 5 * 4 + 4 * 2);
  EXPECT_EQ((TeacherStore::Layout{.vocabulary = 65537, .k = 4}.target_bytes()), 5 * 4 + 4 * 4);
  EXPECT_EQ((TeacherStore::Layout{.vocabulary = 12, .k = 12}.target_bytes()), 12 * 4 + 12 * 2);
}

}  // namespace
}  // namespace pipeline::tasks::text
