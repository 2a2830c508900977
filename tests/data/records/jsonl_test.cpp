#include "plugins/data/records/json_records.hpp"

#include <gmock/gmock.h>

#include "tests/data/records/reading.hpp"

namespace pipeline::records {
namespace {

const Drop& only_drop(const Read& read, DropReason reason) {
  EXPECT_EQ(read.report.dropped(), drop(read, reason).count);
  return drop(read, reason);
}

constexpr const char* kGood = R"({"document": "good", "summary": "g"})"
                              "\n";

TEST(Jsonl, ReadsFieldsInAnyOrderAmongOthers) {
  const auto read = read_text(
      "a.jsonl",
      "{\"summary\":\"s\",\"source\":{\"document\":\"no\",\"list\":[1,{}]},\"document\":\"d\",\"id\":\"x\"}\n"
      "{\"document\":\"d2\",\"summary\":\"s2\",\"id\":-17}\r\n"
      "\n"
      "{\"document\":\"d3\",\"summary\":\"s3\"}");
  ASSERT_EQ(read.pairs.size(), 3u);
  EXPECT_EQ(read.report.records, 3u);
  EXPECT_EQ(read.pairs[0].first, "d");
  EXPECT_EQ(read.pairs[0].second, "s");
  EXPECT_EQ(read.pairs[0].id, "x");
  EXPECT_EQ(read.pairs[1].id, "-17");
  EXPECT_EQ(read.pairs[2].id, "3");  // the number of the record, not of the line
  EXPECT_EQ(read.pairs[2].line, 4u);
}

TEST(Jsonl, IdsBeyondSixtyFourBitsKeepTheirDigits) {
  const auto read =
      read_text("a.jsonl", R"({"document":"d","summary":"s","id":123456789012345678901234567890})");
  EXPECT_EQ(read.pairs.at(0).id, "123456789012345678901234567890");
}

TEST(Jsonl, KeepsOtherScriptsAndEscapesExactly) {
  const auto read = read_text("a.jsonl",
                              "\xef\xbb\xbf{\"document\":\"中文 עברית \\ud83d\\ude00 \\u0000 "
                              "\\\"\\n\",\"summary\":\"Ελλ\\u0416\"}\n");
  EXPECT_EQ(read.pairs.at(0).first, std::string("中文 עברית 😀 ") + '\0' + " \"\n");
  EXPECT_EQ(read.pairs.at(0).second, "ΕλλЖ");
}

TEST(Jsonl, LoneSurrogatesAreDroppedAndNamed) {
  const auto read = read_text("a.jsonl", std::string(kGood) + R"({"document":"\ud800 x","summary":"s"})"
                                                              "\n"
                                                              R"({"document":"\udc00","summary":"s"})"
                                                              "\n"
                                                              R"({"document":"d","summary":"\ud83d\u0041"})"
                                                              "\n");
  EXPECT_EQ(only_drop(read, DropReason::kLoneSurrogate).lines, (std::vector<uint64_t>{2, 3, 4}));
}

TEST(Jsonl, BrokenUtf8IsDroppedWithItsColumn) {
  const auto read =
      read_text("a.jsonl", std::string(kGood) + "{\"document\":\"caf\xe9\",\"summary\":\"s\"}\n");
  EXPECT_EQ(only_drop(read, DropReason::kInvalidUtf8).detail, "column 17");
}

TEST(Jsonl, WhatIsNoObjectIsDropped) {
  const auto read = read_text(
      "a.jsonl", std::string(kGood) +
                     "[1,2]\n7\n\"text\"\nnull\nword\n{\"document\" \"x\"}\n{\"document\":\"x\"} {}\n"
                     "{\"document\":\"d\",\"document\":\"e\",\"summary\":\"s\"}\n{\"document\":\"x\n");
  EXPECT_EQ(only_drop(read, DropReason::kNotAnObject).count, 9u);
  EXPECT_EQ(drop(read, DropReason::kNotAnObject).detail, "a list, not an object");
}

TEST(Jsonl, TakesNestingOfAnyDepth) {
  const std::string deep(1000000, '[');
  const auto read = read_text(
      "a.jsonl",
      kGood + ("{\"x\":" + deep + std::string(1000000, ']') + ",\"document\":\"d\",\"summary\":\"s\"}\n") +
          deep + "\n");
  EXPECT_EQ(read.pairs.size(), 2u);
  EXPECT_EQ(only_drop(read, DropReason::kNotAnObject).lines, std::vector<uint64_t>{3});
}

TEST(Jsonl, MissingFieldsAreNamedWithWhatIsThere) {
  const auto read = read_text("a.jsonl", std::string(kGood) + R"({"Document ":"d","summary":"s"})"
                                                              "\n{}\n"
                                                              R"({"document":"d"})");
  ASSERT_EQ(read.report.drops.size(), 2u);
  EXPECT_EQ(read.report.drops[0].subject, "no \"document\"");
  EXPECT_EQ(read.report.drops[0].count, 2u);
  EXPECT_EQ(read.report.drops[0].detail, "there is \"Document \", \"summary\" (is it \"Document \"?)");
  EXPECT_EQ(read.report.drops[1].subject, "no \"summary\"");
  EXPECT_EQ(read.report.drops[1].lines, std::vector<uint64_t>{4});
}

TEST(Jsonl, WrongTypesAreDroppedByFieldAndType) {
  std::string text = kGood;
  for (const char* record :
       {R"({"document":7,"summary":"s"})", R"({"document":["d"],"summary":"s"})",
        R"({"document":{"document":"d"},"summary":"s"})", R"({"document":"d","summary":null})",
        R"({"document":"d","summary":12.5})", R"({"document":"d","summary":"s","id":1.5})",
        R"({"document":"d","summary":"s","id":true})", R"({"document":8,"summary":"s"})"})
    text += std::string(record) + "\n";
  const auto read = read_text("a.jsonl", text);
  std::vector<std::string> problems;
  for (const Drop& one : read.report.drops) {
    EXPECT_EQ(one.reason, DropReason::kWrongType);
    problems.push_back(std::to_string(one.count) + " " + one.problem());
  }
  EXPECT_THAT(problems, testing::ElementsAre("2 \"document\" is a number (7)", "1 \"document\" is a list",
                                             "1 \"document\" is an object", "1 \"summary\" is null",
                                             "1 \"summary\" is a number (12.5)", "1 \"id\" is a number (1.5)",
                                             "1 \"id\" is true or false"));
}

TEST(Jsonl, NumbersThatJsonDoesNotHaveAreNamed) {
  const auto read = read_text("a.jsonl", std::string(kGood) + R"({"document":"d","summary": NaN})"
                                                              "\n"
                                                              R"({"document":-Infinity,"summary":"s"})"
                                                              "\n");
  EXPECT_EQ(only_drop(read, DropReason::kNotAnObject).detail,
            "NaN, which JSON does not have: write null or leave the field out");
}

TEST(Jsonl, ALastLineThatIsCutOffIsSaidToBe) {
  const auto read = read_text("a.jsonl", std::string(kGood) + R"({"document":"half of a li)");
  EXPECT_EQ(only_drop(read, DropReason::kUnfinished).lines, std::vector<uint64_t>{2});
}

TEST(Jsonl, HugeLinesAreDroppedInBoundedMemoryAndTheRestIsRead) {
  const tests::FilesFolder folder;
  const auto path = folder / "a.jsonl";
  {
    std::ofstream stream(path, std::ios::binary);
    stream << "{\"document\":\"";
    const std::string block(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) stream << block;
    stream << "\",\"summary\":\"s\"}\n" << kGood;
  }
  const auto read = read_file(path);
  EXPECT_EQ(read.pairs.size(), 1u);
  EXPECT_EQ(only_drop(read, DropReason::kTooLong).lines, std::vector<uint64_t>{1});

  ReadOptions options;
  options.max_record_bytes = uint64_t{200} << 20;
  EXPECT_EQ(read_file(path, {}, options).pairs.at(0).first.size(), size_t{100} << 20);
}

TEST(Jsonl, TheLimitIsExact) {
  const std::string line = R"({"document":"d","summary":"s"})";
  ReadOptions options;
  options.max_record_bytes = line.size();
  EXPECT_EQ(read_text("a.jsonl", line + "\n" + line, {}, options).pairs.size(), 2u);
  EXPECT_EQ(
      only_drop(read_text("a.jsonl", line + "\n" + line + " \n", {}, options), DropReason::kTooLong).count,
      1u);
}

TEST(JsonList, ItsElementsAreTheRecords) {
  const std::string one = R"({"document": "d [1], \"{", "summary": "s", "more": [{"a": []}]})",
                    two = "{\n  \"document\": \"e\",\n  \"summary\": \"t\"\n }";
  for (const std::string& text : {"[" + one + "," + two + "]", "\n [\r\n " + one + ",\n" + two + "\n]\n",
                                  "\xef\xbb\xbf[" + one + " , " + two + " ] \n\n"}) {
    for (const char* name : {"a.json", "a.jsonl"}) {
      const auto read = read_text(name, text);
      ASSERT_EQ(read.pairs.size(), 2u) << text;
      EXPECT_EQ(read.pairs[0].first, "d [1], \"{");
      EXPECT_EQ(read.pairs[1].second, "t");
      EXPECT_EQ(read.report.dropped(), 0u);
    }
  }
}

TEST(JsonList, WhatCannotBeUsedHasItsLine) {
  const auto read = read_text("a.json",
                              "[\n {\"document\": \"d\", \"summary\": \"s\"},\n 7,\n"
                              " {\n  \"document\": \"d\" \"summary\": \"s\"},\n"
                              " {\"document\": \"caf\xe9\", \"summary\": \"s\"},\n"
                              " {\"document\": \"e\", \"summary\": \"t\"}\n] beyond\n"
                              "{\"document\": \"f\", \"summary\": \"u\"}\n");
  ASSERT_EQ(read.pairs.size(), 3u) << "lines that follow the list are records, too";
  EXPECT_EQ(read.pairs[1].line, 7u);
  EXPECT_EQ(read.pairs[2].line, 9u);
  EXPECT_EQ(drop(read, DropReason::kNotAnObject).lines, (std::vector<uint64_t>{3, 4, 8}));
  EXPECT_EQ(drop(read, DropReason::kInvalidUtf8).lines, std::vector<uint64_t>{6});
}

TEST(JsonList, RecordsOfOneLineAreToldApart) {
  const auto read = read_text("a.json", R"([7, {"document":"d","summary":"s"}, 8])");
  EXPECT_THAT(read.report.table("a.json"), testing::HasSubstr("not an object), lines 1, 1 (record 3): "));
}

TEST(JsonList, ThatIsCutOffIsSaidToBe) {
  for (const std::string end :
       {"", ",", ", {\"document\": \"e", ", {\"document\": \"e\", \"summary\": \"t\""}) {
    const auto read = read_text("a.json", "[{\"document\": \"d\", \"summary\": \"s\"}" + end);
    EXPECT_EQ(read.pairs.size(), 1u) << end;
    EXPECT_EQ(only_drop(read, DropReason::kUnfinished).count, 1u) << end;
  }
}

TEST(JsonList, HugeElementsAreDroppedInBoundedMemoryAndTheRestIsRead) {
  ReadOptions options;
  options.max_record_bytes = 1000;
  const auto read = read_text(
      "a.json",
      "[{\"document\": \"" + std::string(5 << 20, 'x') + "\"},\n{\"document\": \"d\", \"summary\": \"s\"}]",
      {}, options);
  EXPECT_EQ(only_drop(read, DropReason::kTooLong).lines, std::vector<uint64_t>{1});
  EXPECT_EQ(read.pairs.at(0).line, 2u);
}

// Objects as jq writes them, and a list of records within an object.
TEST(JsonList, ObjectsMayGoOverSeveralLines) {
  const auto read = read_text("a.json",
                              "{\n  \"document\": \"d\",\n  \"summary\": \"s\"\n}\n"
                              "{\n  \"document\": \"e\",\n  \"summary\": \"t\"\n}\n");
  ASSERT_EQ(read.pairs.size(), 2u);
  EXPECT_EQ(read.pairs[1].line, 5u);
  EXPECT_THAT(
      error_of("a.json", "{\"version\": 1, \"data\": [\n{\"document\": \"d\", \"summary\": \"s\"}\n]}"),
      testing::HasSubstr(
          "no \"document\" (there is \"version\", \"data\"; \"data\" is a list: if it has the records"));
}

TEST(Jsonl, LinesMayGoOverTheEndOfABlock) {
  std::string text;
  std::vector<std::string> documents;
  for (int i = 0; text.size() < (5 << 20); ++i) {
    documents.push_back(std::to_string(i) + std::string(static_cast<size_t>(i % 9973) * 7, 'a'));
    text += "{\"document\":\"" + documents.back() + "\",\"summary\":\"s\"}\n";
  }
  const auto read = read_text("a.jsonl", text);
  ASSERT_EQ(read.pairs.size(), documents.size());
  for (size_t i = 0; i < documents.size(); ++i) ASSERT_EQ(read.pairs[i].first, documents[i]) << i;
}

}  // namespace
}  // namespace pipeline::records
