// The usual answers.
#include <gtest/gtest.h>

#include "plugins/data/picture_texts/conversation.hpp"
#include "plugins/scores/answers/answer_figures.hpp"

namespace pipeline::answers {
namespace {

TEST(MajorityAnswers, AreTheMostFrequentOfTheQuestion) {
  MajorityAnswers majority;
  const auto add = [&](const std::string& question, const std::string& answer) {
    majority.add(picture_texts::plain_question(question), answer);
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

}  // namespace
}  // namespace pipeline::answers
