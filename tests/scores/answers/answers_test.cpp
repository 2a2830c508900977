// Scores of answers, and the page that shows them.
#include <gtest/gtest.h>

#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/scores/answers/answer_score.hpp"

namespace pipeline::answers {
namespace {

TEST(AnswerScore, ComparesWordsAsSquadDoes) {
  EXPECT_EQ(score_answer("The cat.", "a Cat").exact, 1);
  EXPECT_EQ(score_answer("cat", "cats").exact, 0);
  EXPECT_EQ(score_answer("cat", "cats").f1, 0);
  EXPECT_NEAR(score_answer("red big cat", "big dog").f1, 2.0 / 5, 1e-12);  // one of two, one of three
  EXPECT_NEAR(score_answer("no no", "no").f1, 2.0 / 3, 1e-12) << "each as often as both have it";
  EXPECT_EQ(score_answer("", "x").f1, 0);
  EXPECT_EQ(score_answer("the", "").exact, 1) << "nothing is left of either";
}

TEST(AnswerPage, ShowsWhatItIsGiven) {
  const ShownAnswer shown{"a<b", {std::string("\x89PNG\0x", 6), "two"}, "What & why?", "<t>", "", "blind",
                          true};
  const ShownAnswer again = ShownAnswer::unpack(shown.pack());
  EXPECT_EQ(again.pictures, shown.pictures);
  EXPECT_EQ(again.id, shown.id);
  EXPECT_TRUE(again.right);
  const std::string page = answer_page({again}, "Title");
  for (const char* text : {"a&lt;b", "What &amp; why?", "&lt;t&gt;", "(nothing)", "blind", "class=\"right\"",
                           "src=\"data:image/png;base64,iVBORwB4\"", "src=\"data:image/png;base64,dHdv\""})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace pipeline::answers
