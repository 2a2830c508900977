// Scores of answers, the usual answers, and retrieval.
#include <gtest/gtest.h>

#include "plugins/data/answers/answer_page.hpp"
#include "plugins/data/answers/answer_score.hpp"
#include "plugins/tasks/vlm/task/majority.hpp"
#include "plugins/tasks/vlm/task/retrieval.hpp"

namespace pipeline::vlm {
namespace {

using answers::answer_page;
using answers::score_answer;
using answers::ShownAnswer;

TEST(AnswerScore, ComparesWordsAsSquadDoes) {
  EXPECT_EQ(score_answer("The cat.", "a Cat").exact, 1);
  EXPECT_EQ(score_answer("cat", "cats").exact, 0);
  EXPECT_EQ(score_answer("cat", "cats").f1, 0);
  EXPECT_NEAR(score_answer("red big cat", "big dog").f1, 2.0 / 5, 1e-12);  // one of two, one of three
  EXPECT_NEAR(score_answer("no no", "no").f1, 2.0 / 3, 1e-12) << "each as often as both have it";
  EXPECT_EQ(score_answer("", "x").f1, 0);
  EXPECT_EQ(score_answer("the", "").exact, 1) << "nothing is left of either";
}

TEST(MajorityAnswers, AreTheMostFrequentOfTheQuestion) {
  MajorityAnswers majority;
  const auto add = [&](const std::string& question, const std::string& answer) {
    majority.add({"", "", {{"user", question}, {"assistant", answer}}});
  };
  add("<image>\nWhat?", "b");
  add("What?\n<image>", "c");
  add("What?", "c");
  add("Who?", "b");
  add("Who?", "a");
  add("Other?", "b");
  EXPECT_EQ(majority.answer("What?"), "c");
  EXPECT_EQ(majority.answer("Who?"), "a") << "of equals the first";
  EXPECT_EQ(majority.answer("Never asked?"), "b");
  EXPECT_TRUE(majority.is_common("What?"));
  EXPECT_FALSE(majority.is_common("Never asked?"));
}

TEST(Recall, CountsTheRightOnesInBothDirections) {
  const float right[] = {-1, -5, -9, -4, -1, -9, -7, -8, -3};
  EXPECT_EQ(recall_of(right, 3).captions, 1);
  EXPECT_EQ(recall_of(right, 3).pictures, 1);
  // Caption 0 is likely after any picture; what counts is by how much more.
  const float easy[] = {-1, -20, -1.5f, -10};
  EXPECT_EQ(recall_of(easy, 2).captions, 1);
  const float same[] = {-1, -1, -1, -1};
  EXPECT_EQ(recall_of(same, 2).captions, 0) << "a tie is no answer";
  EXPECT_EQ(recall_of(same, 2).pictures, 0);
  EXPECT_EQ(recall_of({}, 0).pictures, 0);
}

TEST(AnswerPage, ShowsWhatItIsGiven) {
  const ShownAnswer shown{"a<b", std::string("\x89PNG\0x", 6), "What & why?", "<t>", "", "blind", true};
  const ShownAnswer again = ShownAnswer::unpack(shown.pack());
  EXPECT_EQ(again.picture, shown.picture);
  EXPECT_EQ(again.id, shown.id);
  EXPECT_TRUE(again.right);
  const std::string page = answer_page({again}, "Title");
  for (const char* text : {"a&lt;b", "What &amp; why?", "&lt;t&gt;", "(nothing)", "blind", "class=\"right\"",
                           "src=\"data:image/png;base64,iVBORwB4\""})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace pipeline::vlm
