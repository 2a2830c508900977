#include <gmock/gmock.h>

#include "core/base/csv.hpp"
#include "core/base/utf8.hpp"

namespace pipeline {
namespace {

using testing::ElementsAre;

constexpr auto kValid = std::string_view::npos;

TEST(Utf8, AcceptsEveryWellFormedLength) {
  EXPECT_EQ(first_invalid_utf8(""), kValid);
  EXPECT_EQ(first_invalid_utf8("plain ascii that is longer than eight bytes"), kValid);
  EXPECT_EQ(first_invalid_utf8("é Ж ह 中 😀 \u07ff\uffff\U0010ffff"), kValid);
  EXPECT_EQ(first_invalid_utf8(std::string_view("a\0b", 3)), kValid);
}

TEST(Utf8, RefusesWhatTheStandardCallsIllFormed) {
  EXPECT_EQ(first_invalid_utf8("ab\x80"), 2u);            // a continuation alone
  EXPECT_EQ(first_invalid_utf8("\xc0\xaf"), 0u);          // overlong "/"
  EXPECT_EQ(first_invalid_utf8("\xe0\x80\xaf"), 0u);      // overlong
  EXPECT_EQ(first_invalid_utf8("\xf0\x8f\xbf\xbf"), 0u);  // overlong
  EXPECT_EQ(first_invalid_utf8("x\xed\xa0\x80"), 1u);     // a surrogate
  EXPECT_EQ(first_invalid_utf8("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(first_invalid_utf8("\xff"), 0u);
  EXPECT_EQ(first_invalid_utf8("12345678\xe4\xb8"), 8u);  // cut off
  EXPECT_EQ(first_invalid_utf8("caf\xe9 latin-1 text"), 3u);
}

TEST(Utf8, APrefixCutsNoCharacter) {
  EXPECT_EQ(utf8_prefix("caf\u00e9s", 6), "caf\u00e9s");
  EXPECT_EQ(utf8_prefix("caf\u00e9s", 5), "caf\u00e9");
  EXPECT_EQ(utf8_prefix("caf\u00e9s", 4), "caf");
  EXPECT_EQ(utf8_prefix("\U0001f980", 3), "");
  EXPECT_EQ(utf8_prefix("\x80\x80\x80", 2), "");  // ends where there is no character
}

TEST(Utf8, ControlCharactersAreShownAndNotObeyed) {
  EXPECT_EQ(printable("é 中 \U0001f980\n\t"), "é 中 \U0001f980\n\t");
  EXPECT_EQ(printable("\x1b[31m\r\x7f\xc2\x9b"
                      "1m\xff"),
            "\\x1b[31m\\x0d\\x7f\\xc2\\x9b1m\\xff");
  EXPECT_EQ(printable("a\nb", ""), "a\\x0ab");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(CsvRows, HaveTheirCellsAndTheLineInWhichTheyBegin) {
  const std::vector<CsvRow> rows = csv_rows(
      "\xef\xbb\xbf"
      "a,b\r\n\r\n\"1\n,\"\"x\"\"\",2\r\n,\nlast");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(rows[0].cells, ElementsAre("a", "b"));
  EXPECT_THAT(rows[1].cells, ElementsAre("1\n,\"x\"", "2"));
  EXPECT_EQ(rows[1].line, 3u);
  EXPECT_THAT(rows[2].cells, ElementsAre("", ""));
  EXPECT_EQ(rows[2].line, 5u);
  EXPECT_THAT(rows[3].cells, ElementsAre("last"));
}

}  // namespace
}  // namespace pipeline
