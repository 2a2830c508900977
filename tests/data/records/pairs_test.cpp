#include <sys/stat.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "plugins/data/records/pairs.hpp"
#include "tests/data/records/reading.hpp"

namespace pipeline::records {
namespace {

TEST(Pairs, ColumnsCanBeNamed) {
  Columns columns;
  columns.first = "text";
  columns.second = "title";
  columns.id = "key";
  EXPECT_EQ(read_text("a.jsonl", R"({"text":"d","title":"s","key":"k"})", columns).pairs.at(0).id, "k");
  EXPECT_EQ(read_text("A.CSV", "key,title,text\nk,s,d\n", columns).pairs.at(0).first, "d");
  columns.second = "text";
  EXPECT_NE(error_of("a.jsonl", "{}", columns).find("must be different ones"), std::string::npos);
}

TEST(Pairs, AFileThatIsOnlyPredictedNeedsNoSummary) {
  Columns columns;
  columns.second_required = false;
  for (const auto* text :
       {R"({"document":"d"})", R"({"document":"d","summary":null})", R"({"document":"d","summary":""})"}) {
    EXPECT_EQ(read_text("a.jsonl", text, columns).pairs.at(0).second, "") << text;
  }
  EXPECT_EQ(read_text("a.csv", "document\nd\n", columns).pairs.at(0).second, "");
  EXPECT_EQ(read_text("a.csv", "document,summary\nd,s\n", columns).pairs.at(0).second, "s");
}

// Hive, Spark and DuckDB divide tables into folders called COLUMN=VALUE.
TEST(Pairs, FoldersOfAColumnsValuesAreThatColumn) {
  const tests::FilesFolder folder;
  const auto put = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    folder.write(name, text);
  };
  const auto read = [&](const std::string& name) {
    std::string found;
    SourceReport report;
    read_pairs(
        sources::find(folder / name), {.id = "lang"},
        [&](Pair&& pair, const std::string&) {
          found += pair.id + " " + pair.first + " " + pair.second + "|";
        },
        report);
    return found;
  };
  for (const char* lang : {"lang=d%3De", "lang=en"}) {
    put(std::string("lines/") + lang + "/summary=s1/0.jsonl",
        "{\"document\": \"d\"}\n{ \"document\":\"e\",\"lang\":\"own\"}\n");
    put(std::string("tables/") + lang + "/summary=s2/0.csv", "document\nd\n");
  }
  put("lines/lang=__HIVE_DEFAULT_PARTITION__/0.jsonl", "{}\n{\"document\": \"x\", \"summary\": \"y\"}\n");
  EXPECT_THAT(read("tables"), testing::HasSubstr(":d=e d s2|"));
  EXPECT_THAT(read("tables"), testing::HasSubstr(":en d s2|"));
  EXPECT_THAT(read("lines/*/*/0.jsonl"), testing::HasSubstr(":d=e d s1|"));
  EXPECT_THAT(read("lines/*/*/0.jsonl"), testing::HasSubstr(":own e s1|"))
      << "each record has keys of its own";
  EXPECT_THAT(read("lines"), testing::HasSubstr(":2 x y|")) << "null: the records' numbers";
  put("splits/split=train/a.jsonl", "{}\n");
  put("splits/split=test/a.jsonl", "{}\n");
  EXPECT_THAT(tests::message_of<DataError>([&] { sources::find(folder / "splits"); }),
              testing::HasSubstr("has files of several splits (split=test/a.jsonl, split=train/a.jsonl)"));
}

TEST(Pairs, RequiredIdsMustBeThere) {
  Columns columns;
  columns.id_required = true;
  EXPECT_NE(error_of("a.jsonl", R"({"document":"d","summary":"s"})", columns).find("no \"id\""),
            std::string::npos);
  EXPECT_NE(error_of("a.csv", "document,summary\nd,s\n", columns).find("no column \"id\""),
            std::string::npos);
}

TEST(Pairs, DuplicateIdsAndBlankFieldsAreDroppedByReason) {
  const auto read = read_text("a.jsonl",
                              "{\"id\":\"a\",\"document\":\"d\",\"summary\":\"s\"}\n"
                              "{\"id\":\"a\",\"document\":\"e\",\"summary\":\"t\"}\n"
                              "{\"id\":\"b\",\"document\":\" \\n\",\"summary\":\"t\"}\n"
                              "{\"id\":\"c\",\"document\":\"e\",\"summary\":\"\\u3000\"}\n"
                              "{\"id\":\"\",\"document\":\"e\",\"summary\":\"t\"}\n"
                              "{\"id\":\"d\",\"document\":\"f\",\"summary\":\"u\"}\n");
  EXPECT_EQ(read.pairs.size(), 2u);
  EXPECT_EQ(read.report.table("a.jsonl"),
            "4 of 6 records of a.jsonl were dropped\n"
            "  1: the id was there before (\"a\"), line 2: make ids unique, or leave the column out\n"
            "  1: \"document\" is nothing but white space, line 3: fill it or remove the record\n"
            "  1: \"summary\" is nothing but white space, line 4: fill it or remove the record\n"
            "  1: \"id\" is empty, line 5: fill it or remove the record");
}

TEST(Pairs, TheReportKeepsTheFirstLinesOnlyAndSurvivesJson) {
  std::string text = R"({"document":"d","summary":"s"})"
                     "\n";
  for (int i = 0; i < 50; ++i) text += "\xff\n";
  const auto read = read_text("a.jsonl", text);
  const auto table = read.report.table("a.jsonl");
  EXPECT_NE(table.find("50: not valid UTF-8 (column 1), lines 2, 3, 4, 5, 6, ...: convert"),
            std::string::npos)
      << table;
  const SourceReport report{{{"a.jsonl", read.report}}};
  EXPECT_EQ(SourceReport::from_json(report.to_json()).table(), table);
  EXPECT_THROW(SourceReport::from_json("{}"), DataError);
  EXPECT_EQ(RecordReport{}.table("a.jsonl"), "");
}

TEST(Pairs, AFileWithoutAUsablePairIsAnErrorOfItsFirstLine) {
  EXPECT_EQ(error_of("a.jsonl", "\n{\"text\":\"d\"}\nx\n"),
            "a.jsonl:2: no \"document\" (there is \"text\"); none of the 2 records is usable: name the "
            "columns in [task.data], by its keys that end in _column");
  EXPECT_EQ(error_of("a.json", "[\n{\"document\":\"d\"}\n]"),
            "a.json:2: no \"summary\" (there is \"document\"); this is the only record: name the columns in "
            "[task.data], by its keys that end in _column");
  EXPECT_EQ(error_of("a.jsonl", "\n\n"), "a.jsonl: no records, only blank lines or a header");
  EXPECT_EQ(error_of("a.csv", "document,summary\n"), "a.csv: no records, only blank lines or a header");
}

TEST(Pairs, FilesThatCannotBeReadAreNamed) {
  EXPECT_EQ(error_of("a.jsonl", ""), "a.jsonl: the file is empty: it must hold at least one record");
  EXPECT_EQ(error_of("a.jsonl", "\x1f\x8b\x08 packed"),
            "a.jsonl: damaged: its gzip data cannot be unpacked (at byte 0 of the file, or behind it)");
  EXPECT_THAT(error_of("a.jsonl.xz", "\xfd\x37zXZ"),
              testing::HasSubstr("compressed with xz: unpack it first"));
  EXPECT_EQ(error_of("a.csv", std::string("\xff\xfe"
                                          "d\0o\0",
                                          6)),
            "a.csv: UTF-16 text: convert it first (iconv -f UTF-16 -t UTF-8)");
  EXPECT_NE(error_of("a.doc", "x").find("must end in .jsonl"), std::string::npos);
  EXPECT_THAT(error_of("a.json", "PAR1..."),
              testing::HasSubstr("a.json: a Parquet file: its name must end in .parquet"));
  const tests::FilesFolder folder;
  EXPECT_NE(tests::message_of<DataError>([&] { read_file(folder / "no.jsonl"); }).find("No such file"),
            std::string::npos);
  ASSERT_EQ(::mkfifo((folder / "pipe.csv").c_str(), 0600), 0);
  EXPECT_NE(tests::message_of<DataError>([&] { read_file(folder / "pipe.csv"); }).find("is a pipe (FIFO)"),
            std::string::npos);
  std::filesystem::create_directory(folder / "folder.csv");
  EXPECT_NE(tests::message_of<DataError>([&] {
              read_file(folder / "folder.csv");
            }).find("there is no file in this folder"),
            std::string::npos);
}

// {"document":"d one","summary":"s one"}, {"document":1} and {"document":"d two","summary":"s two"}, by gzip.
TEST(Pairs, AFileThatIsPackedIsReadAsWhatIsInIt) {
  const std::string packed(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x4a\xc9\x4f\x2e\xcd\x4d\xcd\x2b\x51\xb2\x52\x4a"
      "\x51\xc8\xcf\x4b\x55\xd2\x51\x2a\x2e\xcd\xcd\x4d\x2c\xaa\x04\x8a\x14\x83\x45\x6a\xb9\xaa\x91\x94"
      "\x19\xa2\x72\x81\xba\x4a\xca\xf3\xd1\x74\x81\x44\x6a\xb9\x00\xe2\xad\x9c\xf1\x5d\x00\x00\x00",
      71);
  const tests::FilesFolder folder;
  for (const char* name : {"a.jsonl.gz", "a.json.gz", "a.jsonl"}) {
    folder.write(name, packed);
    SourceReport report;
    std::vector<std::string> found;
    read_pairs(
        sources::find(folder / name), {},
        [&](Pair&& pair, const std::string&) { found.push_back(pair.first + ", " + pair.second); }, report);
    EXPECT_EQ(found, (std::vector<std::string>{"d one, s one", "d two, s two"})) << name;
    EXPECT_THAT(report.table(), testing::HasSubstr("line 2"));
  }
  EXPECT_THAT(error_of("a.gz", packed), testing::HasSubstr("must end in .jsonl"));
}

TEST(Pairs, OnBlockSeesTheBytesAndCanStop) {
  const std::string text = R"({"document":"d","summary":"s"})"
                           "\n";
  ReadOptions options;
  uint64_t seen = 0;
  options.on_block = [&](uint64_t bytes) { seen = bytes; };
  read_text("a.jsonl", text, {}, options);
  EXPECT_EQ(seen, text.size());
  options.on_block = [](uint64_t) { throw files::Cancelled(); };
  EXPECT_THROW(read_text("a.jsonl", text, {}, options), files::Cancelled);
}

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
