#include "plugins/data/records/csv_reader.hpp"

#include <gmock/gmock.h>

#include "tests/data/records/reading.hpp"

namespace pipeline::records {
namespace {

using Lines = std::vector<uint64_t>;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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

// GLUE's files: quotes are letters like any other.
TEST(Csv, InTsvQuotesAreText) {
  const auto read = read_text("a.tsv",
                              "document\tsummary\n"
                              "\"We are done,\" he said.\tdone\n"
                              "\"It begins here and does not end\topen quote\n"
                              "a plain line\tplain\n"
                              "it ends here\"\tclosed quote\n"
                              "5\" disks\tdisks\n"
                              "\"All of it.\"\tall\n");
  ASSERT_EQ(read.pairs.size(), 6u);
  EXPECT_EQ(read.pairs[0].first, "\"We are done,\" he said.");
  EXPECT_EQ(read.pairs[1].first, "\"It begins here and does not end");
  EXPECT_EQ(read.pairs[3].second, "closed quote");
  EXPECT_EQ(read.pairs[5].first, "\"All of it.\"");
  EXPECT_THAT(read.report.notes, ElementsAre(HasSubstr("3 fields begin with a quote, which is text in TSV")));
}

TEST(Csv, ATsvFileWhoseFieldsAreQuotedIsReadOrNamed) {
  ReadOptions quoted;
  quoted.quotes = Quotes::kCsv;
  // pandas' to_csv(sep="\t") quotes where it must, and with QUOTE_ALL everywhere.
  for (const std::string row : {"\"one\ttwo\"\ts\n", "\"one\ntwo\"\ts\n", "\"say \"\"hi\"\"\"\ts\n"}) {
    EXPECT_THAT(error_of("a.tsv", "document\tsummary\n" + row),
                AllOf(StartsWith("a.tsv:2: the field \""), HasSubstr("set task.data.quotes = \"csv\"")))
        << row;
    EXPECT_EQ(read_text("a.tsv", "document\tsummary\n" + row, {}, quoted).pairs.at(0).second, "s") << row;
    const auto all = read_text("a.tsv", "\"document\"\t\"summary\"\n" + row);
    EXPECT_EQ(all.pairs.at(0).second, "s") << "the header is quoted, and so is the rest";
  }
}

TEST(Csv, QuotesAreTextWhereSomebodySaysSo) {
  ReadOptions plain;
  plain.quotes = Quotes::kText;
  const auto read =
      read_text("a.csv", "document,summary\n\"a\" b,c\n\"d,\"\"e\"\"\"\nx,\"y,z\"\n", {}, plain);
  ASSERT_EQ(read.pairs.size(), 2u);
  EXPECT_EQ(read.pairs[0].first, "\"a\" b");
  EXPECT_EQ(read.pairs[1].second, "\"\"e\"\"\"");
  EXPECT_EQ(read.report.drops.at(0).lines, Lines{4});
}

TEST(Csv, AnotherSeparatorIsTakenFromTheHeader) {
  for (const auto& [text, note] : {std::pair("document;summary\r\na, b;c\r\n", "separated by \";\""),
                                   {"document\tsummary\na, b\tc\n", "separated by tabs"},
                                   {"sep=;\r\ndocument;summary\r\na, b;c\r\n", "separated by \";\""},
                                   {"\"document\";\"summary\"\n\"a, b\";\"c\"\n", "separated by \";\""}}) {
    const auto read = read_text("a.csv", text);
    EXPECT_EQ(read.pairs.at(0).first, "a, b") << text;
    EXPECT_EQ(read.pairs.at(0).second, "c") << text;
    EXPECT_THAT(read.report.notes, ElementsAre(HasSubstr(note))) << text;
  }
  const auto usual = read_text("a.csv", "sep=,\ndocument,summary\na,\nb,c\n");
  EXPECT_EQ(usual.report.drops.at(0).lines, Lines{3});
}

TEST(Csv, AQuoteInsideAnUnquotedFieldStandsForItself) {
  EXPECT_EQ(read_text("a.csv", "document,summary\n5\" disk,it \"works\"\n").pairs.at(0).first, "5\" disk");
}

TEST(Csv, TextAfterAClosingQuoteIsDroppedAndOnlyThatRecord) {
  const auto read = read_text("a.csv", "document,summary\n\"a\" b,c\nd,e\n");
  EXPECT_EQ(drop(read, DropReason::kBadQuotes).lines, Lines{2});
  EXPECT_EQ(read.pairs.at(0).first, "d");
}

TEST(Csv, RecordsOfAnotherWidthAreDropped) {
  const auto read = read_text("a.csv", "document,summary\na,b\na\na,b,c\n,\n");
  EXPECT_EQ(drop(read, DropReason::kFieldCount).lines, (Lines{3, 4}));
  EXPECT_EQ(drop(read, DropReason::kFieldCount).detail, "1 instead of 2");
  EXPECT_EQ(drop(read, DropReason::kEmptyField).lines, Lines{5});
}

TEST(Csv, AQuoteThatIsNeverClosedIsSaidToBe) {
  const auto read = read_text("a.csv", "document,summary\na,b\n\"c,d\ne,f\n");
  EXPECT_EQ(read.pairs.size(), 1u);
  EXPECT_EQ(drop(read, DropReason::kUnfinished).lines, Lines{3});
}

TEST(Csv, HugeRecordsAreDroppedInBoundedMemory) {
  ReadOptions options;
  options.max_record_bytes = 1000;
  const auto read = read_text(
      "a.csv",
      "document,summary\n\"" + std::string(5 << 20, '\n') + "\",b\n" + std::string(3 << 20, ',') + "\nc,d\n",
      {}, options);
  EXPECT_EQ(drop(read, DropReason::kTooLong).count, 2u);
  EXPECT_EQ(read.pairs.at(0).line, (5u << 20) + 4);
}

TEST(Csv, BrokenUtf8IsDropped) {
  const auto read = read_text("a.csv", "document,summary\ncaf\xe9,b\nc,d\n");
  EXPECT_EQ(drop(read, DropReason::kInvalidUtf8).lines, Lines{2});
  EXPECT_EQ(drop(read, DropReason::kInvalidUtf8).detail, "the byte e9");
}

TEST(Csv, AMissingColumnIsAnErrorWithTheHeader) {
  EXPECT_EQ(error_of("a.csv", "\ntext,summary\na,b\n"),
            "a.csv:2: no column \"document\"; the header has \"text\", \"summary\": name the columns in "
            "[task.data], by its keys that end in _column");
  EXPECT_THAT(error_of("a.csv", "Document, Summary\na,b\n"),
              HasSubstr("the header has \"Document\", \" Summary\" (is it \"Document\"?)"));
  EXPECT_EQ(error_of("a.csv", "document,summary,document\na,b,c\n"),
            "a.csv:1: two columns are named \"document\": rename one of them");
  EXPECT_EQ(error_of("a.csv", "document,\"summary\na,b\n"),
            "a.csv:1: the header row cannot be read: it must hold the columns' names, quoted correctly");
}

}  // namespace
}  // namespace pipeline::records
