#include "core/config/error.hpp"

#include <gtest/gtest.h>

namespace pipeline::config {
namespace {

TEST(Suggest, EditDistanceCountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("train", "trian"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // optimal string alignment; unrestricted it would be 2
  EXPECT_EQ(edit_distance("max_steps", "MAX-Steps"), 0u);
}

TEST(Suggest, HugeNamesCostNothing) {
  const std::string huge(1'000'000, 'x');
  EXPECT_EQ(edit_distance(huge, huge), 0u);
  EXPECT_EQ(edit_distance(huge, "x"), 1'000'000u);
}

TEST(Suggest, ClosestIsNearOrNothing) {
  const std::vector<std::string> names{"max_steps", "max_epochs", "micro_batch", "lr"};
  EXPECT_EQ(closest("max_step", names), "max_steps");
  EXPECT_EQ(closest("maxsteps", names), "max_steps");
  EXPECT_EQ(closest("mxa_epochs", names), "max_epochs");
  EXPECT_EQ(closest("workers", names), "");
  EXPECT_EQ(closest("lx", names), "");  // two letters: any would fit
  EXPECT_EQ(closest("LR", names), "lr");
  EXPECT_EQ(closest("", names), "");
}

TEST(Suggest, AlternativesReadAsASentence) {
  EXPECT_EQ(alternatives(std::vector<std::string>{}), "");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a", "b"}), "a or b");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace pipeline::config
