#include "plugins/scores/rouge/scorer.hpp"

#include <gtest/gtest.h>

namespace pipeline::rouge {
namespace {

TEST(LeadWords, TakesTheFirstWords) {
  EXPECT_EQ(lead_words("one two three four", 2), "one two");
  EXPECT_EQ(lead_words("one two", 12), "one two");
  EXPECT_EQ(lead_words("one two", 0), "");
  EXPECT_EQ(lead_words("", 3), "");
}

TEST(LeadWords, JoinsLinesAndRunsOfSpaceByOneSpace) {
  EXPECT_EQ(lead_words("  one\n\n * two\tthree\r\nfour", 4), "one * two three");
}

TEST(LeadWords, KnowsUnicodeSpacesAndKeepsOtherScriptsWhole) {
  EXPECT_EQ(lead_words("один\u00a0два\u3000三\u2009four", 3), "один два 三");
  EXPECT_EQ(lead_words("日本語のテキスト", 1), "日本語のテキスト");
}

}  // namespace
}  // namespace pipeline::rouge
