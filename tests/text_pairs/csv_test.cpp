#include "plugins/tasks/common/text_pairs/records.hpp"

#include <gtest/gtest.h>

#include "tests/text_pairs/reading.hpp"

namespace pipeline::text_pairs {
namespace {

using Lines = std::vector<uint64_t>;

TEST(Csv, ReadsQuotedSeparatorsQuotesAndLineBreaks) {
  const auto read = read_text("a.csv",
                              "id,document,summary\r\n"
                              "1,\"one, \"\"two\"\"\r\nthree\",s\r\n"
                              "2,plain,\"\"\"quoted\"\"\"\r\n");
  ASSERT_EQ(read.pairs.size(), 2u);
  EXPECT_EQ(read.pairs[0].first, "one, \"two\"\r\nthree");
  EXPECT_EQ(read.pairs[1].second, "\"quoted\"");
  EXPECT_EQ(read.pairs[1].id, "2");
  EXPECT_EQ(read.pairs[1].line, 4u);  // the line break inside quotes counts
}

TEST(Csv, SkipsAByteOrderMarkAndBlankLinesAndTakesEveryLineEnd) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const auto read = read_text("a.csv",
                                "\xef\xbb\xbf"
                                "summary,document" +
                                    end + end + "s,d" + end + "t,e");
    ASSERT_EQ(read.pairs.size(), 2u);
    EXPECT_EQ(read.pairs[1].first, "e");
    EXPECT_EQ(read.pairs[1].line, 4u);
    EXPECT_EQ(read.pairs[1].id, "2");
    EXPECT_EQ(read.report.dropped(), 0u);
  }
}

TEST(Csv, TabsSeparateInTsv) {
  const auto read = read_text("a.tsv", "document\tsummary\na, b\t\"c\td\"\n");
  EXPECT_EQ(read.pairs.at(0).first, "a, b");
  EXPECT_EQ(read.pairs.at(0).second, "c\td");
}

TEST(Csv, AQuoteInsideAnUnquotedFieldStandsForItself) {
  EXPECT_EQ(read_text("a.csv", "document,summary\n5\" disk,it \"works\"\n").pairs.at(0).first, "5\" disk");
}

TEST(Csv, TextAfterAClosingQuoteIsDroppedAndOnlyThatRecord) {
  const auto read = read_text("a.csv", "document,summary\n\"a\" b,c\nd,e\n");
  EXPECT_EQ(read.report.drop(DropReason::kBadQuotes).lines, Lines{2});
  EXPECT_EQ(read.pairs.at(0).first, "d");
}

TEST(Csv, RecordsOfAnotherWidthAreDropped) {
  const auto read = read_text("a.csv", "document,summary\na,b\na\na,b,c\n,\n");
  EXPECT_EQ(read.report.drop(DropReason::kFieldCount).lines, (Lines{3, 4}));
  EXPECT_EQ(read.report.drop(DropReason::kFieldCount).detail, "1 instead of 2");
  EXPECT_EQ(read.report.drop(DropReason::kEmptyField).lines, Lines{5});
}

TEST(Csv, AQuoteThatIsNeverClosedIsSaidToBe) {
  const auto read = read_text("a.csv", "document,summary\na,b\n\"c,d\ne,f\n");
  EXPECT_EQ(read.pairs.size(), 1u);
  EXPECT_EQ(read.report.drop(DropReason::kUnfinished).lines, Lines{3});
}

TEST(Csv, HugeRecordsAreDroppedInBoundedMemory) {
  ReadOptions options;
  options.max_record_bytes = 1000;
  const auto read = read_text(
      "a.csv",
      "document,summary\n\"" + std::string(5 << 20, '\n') + "\",b\n" + std::string(3 << 20, ',') + "\nc,d\n",
      {}, options);
  EXPECT_EQ(read.report.drop(DropReason::kTooLong).count, 2u);
  EXPECT_EQ(read.pairs.at(0).line, (5u << 20) + 4);
}

TEST(Csv, BrokenUtf8IsDropped) {
  const auto read = read_text("a.csv", "document,summary\ncaf\xe9,b\nc,d\n");
  EXPECT_EQ(read.report.drop(DropReason::kInvalidUtf8).lines, Lines{2});
}

TEST(Csv, AMissingColumnIsAnErrorWithTheHeader) {
  EXPECT_EQ(error_of("a.csv", "\ntext,summary\na,b\n"),
            "a.csv:2: no column \"document\"; the header has \"text\", \"summary\": name the columns in "
            "[task.data], by its keys that end in _column");
  EXPECT_EQ(error_of("a.csv", "document,summary,document\na,b,c\n"),
            "a.csv:1: two columns are named \"document\": rename one of them");
  EXPECT_EQ(error_of("a.csv", "document,\"summary\na,b\n"),
            "a.csv:1: the header row cannot be read: it must hold the columns' names, quoted correctly");
}

}  // namespace
}  // namespace pipeline::text_pairs
