#include "plugins/tasks/summarization/data/blank.hpp"

#include <gtest/gtest.h>

namespace pipeline::summarization {
namespace {

TEST(Blank, IsWhiteSpaceOfAnyScript) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r\n\u00a0\u3000\u200b\ufeff"));
  EXPECT_FALSE(is_blank(" 。"));
  EXPECT_FALSE(is_blank(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace pipeline::summarization
