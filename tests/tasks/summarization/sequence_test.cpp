#include "plugins/tasks/summarization/data.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace pipeline::tasks::summarization {
namespace {

constexpr int64_t kEnd = 99, kNone = -1;

using Tokens = std::vector<int64_t>;

// Documents are 1, 2, 3, ..., summaries 51, 52, ..., the separator 90, 91.
class SequenceTest : public ::testing::Test {
 protected:
  TokenSample sample(uint32_t document, uint32_t summary) {
    document_.resize(document), summary_.resize(summary);
    std::iota(document_.begin(), document_.end(), int32_t{1});
    std::iota(summary_.begin(), summary_.end(), int32_t{51});
    return {{}, {{document_.data(), document, 4}, {summary_.data(), summary, 4}}, "id"};
  }

  SequenceRules rules_{.max_tokens = 10, .max_summary_tokens = 3, .separator = {90, 91}, .end_of_text = kEnd};

 private:
  std::vector<int32_t> document_, summary_;
};

TEST_F(SequenceTest, TheLossIsOverTheSummaryAndItsEnd) {
  const Sequence sequence = make_sequence(sample(3, 2), rules_);
  EXPECT_EQ(sequence.tokens, (Tokens{1, 2, 3, 90, 91, 51, 52}));
  EXPECT_EQ(sequence.targets, (Tokens{kNone, kNone, kNone, kNone, 51, 52, kEnd}));
}

TEST_F(SequenceTest, OrOverTheWholeText) {
  rules_.loss_on_all = true;
  EXPECT_EQ(make_sequence(sample(3, 2), rules_).targets, (Tokens{2, 3, 90, 91, 51, 52, kEnd}));
}

TEST_F(SequenceTest, TheDocumentIsCutSoThatTheSummaryFits) {
  EXPECT_EQ(make_sequence(sample(50, 2), rules_).tokens, (Tokens{1, 2, 3, 4, 5, 6, 90, 91, 51, 52}));
}

TEST_F(SequenceTest, ASummaryThatIsCutHasNoEnd) {
  const Sequence sequence = make_sequence(sample(50, 4), rules_);
  EXPECT_EQ(sequence.tokens, (Tokens{1, 2, 3, 4, 5, 90, 91, 51, 52, 53}));
  EXPECT_EQ(sequence.targets, (Tokens{-1, -1, -1, -1, -1, -1, 51, 52, 53, kNone}));
}

TEST_F(SequenceTest, WithoutASummaryThereIsNoTarget) {
  for (const bool all : {false, true}) {
    rules_.loss_on_all = all;
    const Sequence sequence = make_sequence(sample(3, 0), rules_);
    EXPECT_EQ(sequence.tokens, (Tokens{1, 2, 3, 90, 91}));
    EXPECT_EQ(sequence.targets, Tokens(5, kNone));
  }
}

TEST_F(SequenceTest, APromptLeavesRoomForWhatIsWritten) {
  EXPECT_EQ(make_prompt(sample(50, 2), rules_, 3), (Tokens{1, 2, 3, 4, 5, 90, 91}));
  EXPECT_EQ(make_prompt(sample(50, 0), rules_, 5), (Tokens{1, 2, 3, 90, 91}));
  EXPECT_EQ(make_prompt(sample(2, 2), rules_, 3), (Tokens{1, 2, 90, 91}));
}

TEST_F(SequenceTest, AtTheLongestWritingAPromptKeepsHalfOfWhatWasLearntFrom) {
  for (int64_t max_tokens = 4; max_tokens < 40; ++max_tokens)
    for (const int64_t max_summary : {1, 3, 12, 100}) {
      rules_.max_tokens = max_tokens, rules_.max_summary_tokens = max_summary;
      const int64_t learnt = std::max<int64_t>(max_tokens - 2 - max_summary, 1),
                    most = longest_writing(max_tokens, max_summary, 2);
      ASSERT_GE(most, 1);
      const auto kept = [&](int64_t written) {
        return static_cast<int64_t>(make_prompt(sample(100, 1), rules_, written).size()) - 2;
      };
      EXPECT_GE(2 * kept(most), learnt) << max_tokens << " " << max_summary;
      const bool more_fits = most + 1 < max_tokens - 2;
      EXPECT_TRUE(!more_fits || 2 * kept(most + 1) < learnt) << max_tokens << " " << max_summary;
    }
}

}  // namespace
}  // namespace pipeline::tasks::summarization
