// The usual answers.
#include <gtest/gtest.h>

#include "plugins/tasks/vlm/majority.hpp"

namespace pipeline::tasks::vlm {
namespace {

TEST(MajorityAnswers, AreTheMostFrequentOfTheQuestion) {
  MajorityAnswers majority;
  const auto add = [&](const std::string& question, const std::string& answer) {
    majority.add({"", {}, {{"user", question}, {"assistant", answer}}});
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
}  // namespace pipeline::tasks::vlm
