// The usual answers, and retrieval.
#include <gtest/gtest.h>

#include "plugins/tasks/vlm/majority.hpp"
#include "plugins/tasks/vlm/retrieval.hpp"

namespace pipeline::vlm {
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

}  // namespace
}  // namespace pipeline::vlm
