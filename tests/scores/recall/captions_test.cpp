#include "plugins/scores/recall/recall.hpp"

#include <gtest/gtest.h>

namespace pipeline::recall {
namespace {

TEST(CaptionRecall, CountsTheRightOnesInBothDirections) {
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
}  // namespace pipeline::recall
