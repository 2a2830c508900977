#include "plugins/data/records/pairs.hpp"

#include <gtest/gtest.h>

namespace pipeline::records {
namespace {

TEST(Blank, IsWhiteSpaceOfAnyScript) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r\n\u00a0\u3000\u200b\ufeff"));
  // All of Unicode's White_Space, and what is next to it.
  for (const auto* blank :
       {"\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\u0085", "\u00a0", "\u1680",
        "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
        "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"})
    EXPECT_TRUE(is_blank(blank)) << blank;
  for (const auto* other :
       {"\x08", "\x0e", "\x1f", "\u0084", "\u0086", "\u180e", "\u200c", "\u2030", "\u2060"})
    EXPECT_FALSE(is_blank(other)) << other;
  EXPECT_FALSE(is_blank(" 。"));
  EXPECT_FALSE(is_blank(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace pipeline::records
