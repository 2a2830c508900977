// Rows of Parquet files. Against the programs that write them: tests/parity/parquet_parity.py.
#include <random>
#include <utility>

#include <gmock/gmock.h>

#include <test_paths.hpp>

#include "plugins/data/files/packed_file.hpp"
#include "plugins/data/messages/conversation_file.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::parquet {
namespace {

using files::DataError;
using testing::ElementsAre;
using testing::HasSubstr;

// Four rows in two row groups, written by pyarrow with a codec each.
const std::string kFixtures = PIPELINE_SOURCE_DIR "/tests/data/parquet/fixtures/";

std::vector<std::string> rows_of(const std::string& path, const std::vector<std::string>& columns = {}) {
  ParquetFile file(path);
  if (!columns.empty()) file.select(columns);
  std::vector<std::string> rows;
  while (file.next()) rows.emplace_back(file.text());
  return rows;
}

TEST(Parquet, ValuesAreThoseOfJson) {
  for (const char* codec : {"snappy", "gzip", "zstd"})
    EXPECT_THAT(
        rows_of(kFixtures + codec + ".parquet"),
        ElementsAre(
            R"({"id":1,"messages":[{"role":"user","content":"q \"1\"\n"},{"role":"assistant","content":"a ü"}],)"
            R"("document":"d one","summary":"s one","image":{"bytes":{"﷓":"iVBOR/8="},"path":"a.png"},)"
            R"("score":1.5})",
            R"({"id":2,"messages":[{"role":"user","content":"q2"},{"role":"assistant"}],)"
            R"("document":"d two","summary":"s two","image":null,"score":null})",
            R"({"id":null,"messages":null,"document":null,"summary":"s three",)"
            R"("image":{"path":"b.png"},"score":null})",
            "{\"id\":4,\"messages\":[],\"document\":\"d "
            "four\",\"summary\":\"\u2028x\",\"image\":{\"bytes\":\"text\"},\"score\":-0.1}"));
}

// Columns of bytes, of declared text, coded and of fixed size: each has one value that is Latin-1.
TEST(Parquet, BytesThatAreNoTextAreDroppedByName) {
  const sources::SourceFiles source = sources::find(kFixtures + "bytes/bytes.parquet");
  const auto read = [&](const records::Columns& columns) {
    records::SourceReport report;
    std::string found;
    records::read_pairs(
        source, columns, [&](records::Pair&& pair, const auto&) { found += pair.first + "|"; }, report);
    return found + report.table();
  };
  EXPECT_THAT(read({}),
              AllOf(HasSubstr("d one|d four|"), HasSubstr("2 of 4 records"),
                    HasSubstr("1: \"document\" is bytes that are not UTF-8, row 2: write it as text"),
                    HasSubstr("1: \"summary\" is bytes that are not UTF-8, row 3: ")));
  EXPECT_THAT(read({.first = "coded"}), AllOf(HasSubstr("c|3 of 4"), HasSubstr("2: \"coded\" is bytes")));
  EXPECT_THAT(read({.first = "id", .id = "fixed"}),
              HasSubstr("1: \"fixed\" is bytes that are not UTF-8, row 2"));
  const std::vector<std::string> ids = rows_of(source.named, {"id"});
  EXPECT_EQ(ids.at(0), R"({"id":"f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff"})");
}

// Arrow gives each struct of a column the keys of all: what is null was not there.
TEST(Parquet, NullsOfStructsAreAbsentKeys) {
  const sources::SourceFiles source = sources::find(kFixtures + "bytes/bytes.parquet");
  messages::ReadReport report;
  std::vector<std::string> found;
  messages::Collector collector(
      [](const messages::Conversation&) { return ""; },
      [&](messages::Conversation&& one) { found.push_back(one.turns.at(1).text + one.turns.at(1).more); },
      report, 1);
  messages::read_texts(source, {}, collector, {});
  EXPECT_THAT(found,
              ElementsAre(R"({"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]})", "a", "a"));
  EXPECT_THAT(report.table("a"),
              HasSubstr("1: \"tool_calls\" has bytes in it that are not UTF-8; the first is row 3"));
}

TEST(Parquet, OnlyTheColumnsThatAreAskedForAreRead) {
  EXPECT_THAT(rows_of(kFixtures + "snappy.parquet", {"score", "id", "no such"}),
              ElementsAre(R"({"id":1,"score":1.5})", R"({"id":2,"score":null})",
                          R"({"id":null,"score":null})", R"({"id":4,"score":-0.1})"));
}

TEST(Parquet, PairsAreReadAndWhatIsMissingIsSaid) {
  records::SourceReport report;
  std::vector<std::string> found;
  const auto keep = [&](records::Pair&& pair, const std::string& where) {
    found.push_back(where + ": " + pair.id + ", " + pair.first + ", " + pair.second);
  };
  const sources::SourceFiles source = sources::find(kFixtures + "zstd.parquet");
  records::read_pairs(source, {}, keep, report);
  EXPECT_THAT(found,
              ElementsAre("row 1: 1, d one, s one", "row 2: 2, d two, s two", "row 4: 4, d four, \u2028x"));
  EXPECT_THAT(report.table(), HasSubstr("1: \"document\" is null, row 3: "));
  EXPECT_THAT(
      tests::message_of<DataError>([&] { records::read_pairs(source, {.first = "Document"}, keep, report); }),
      HasSubstr("zstd.parquet: no column \"Document\"; there is \"id\", \"messages\", \"document\", "
                "\"summary\", \"image\", \"score\" (is it \"document\"?)"));
}

TEST(Parquet, FilesOfAFolderAreOneSource) {
  const sources::SourceFiles source = sources::find(kFixtures);
  messages::ReadReport report;
  std::vector<std::string> ids;
  messages::Collector collector(
      [](const messages::Conversation& one) { return one.turns.empty() ? "empty" : ""; },
      [&](messages::Conversation&& one) { ids.push_back(one.id); }, report, 2);
  messages::read_texts(source, {}, collector, {});
  EXPECT_THAT(ids, ElementsAre("gzip.parquet:1", "snappy.parquet:1", "zstd.parquet:1"));
  EXPECT_EQ(report.records, 12u);
  EXPECT_THAT(report.table("a"),
              AllOf(HasSubstr("3: a turn without \"content\"; the first is gzip.parquet, row 2"),
                    HasSubstr("3: empty; the first is gzip.parquet, row 4")));
}

TEST(Parquet, WhatIsNoneIsNamed) {
  const tests::FilesFolder folder;
  const auto problem = [&](const std::string& text) {
    return tests::message_of<DataError>([&] { rows_of(folder.write("a.parquet", text)); });
  };
  EXPECT_THAT(problem(""), HasSubstr("a.parquet: the file is empty"));
  EXPECT_THAT(problem("{\"a\": 1}\n"), HasSubstr("is no Parquet file"));
  EXPECT_THAT(problem("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), HasSubstr("LFS"));
  EXPECT_THAT(problem("PAR1 and nothing more"), HasSubstr("cannot be read as Parquet"));
  EXPECT_THAT(tests::message_of<DataError>([&] { rows_of(folder / "none.parquet"); }),
              HasSubstr("No such file"));
}

// The bound that each batch of rows is held against; a file that passes it would be gigabytes of rows.
TEST(Parquet, AFewBytesThatFillTheDiskAreRefused) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  const auto problem = [](uint64_t bytes, uint64_t given) {
    return tests::message_of<DataError>([&] { files::check_expansion("large.parquet", bytes, given); });
  };
  EXPECT_EQ(problem(100'000, kGiB + 1),
            "large.parquet: unpacks to more than 1000 times its size: that is no file of records");
  for (const auto& [bytes, given] : {std::pair<uint64_t, uint64_t>{100'000, kGiB},  // little in any case
                                     {kGiB / 1000 + 1, kGiB + 1},
                                     {kGiB, 1000 * kGiB}})
    EXPECT_EQ(problem(bytes, given), "(nothing was thrown)") << bytes << " " << given;
}

// No change of a file ends in anything but rows or an error that names it.
TEST(Parquet, DamageIsAnErrorThatNamesTheFile) {
  const tests::FilesFolder folder;
  std::mt19937 random(1);
  const auto damage = [&](const std::string& file) {
    const std::string good = tests::read_all(kFixtures + file);
    int errors = 0;
    for (int round = 0; round < 1500; ++round) {
      std::string bad = good;
      if (round % 5 == 0) bad.resize(random() % bad.size());
      const int changes = 1 + static_cast<int>(random() % 4);
      for (int i = 0; i < changes && !bad.empty(); ++i)
        bad[random() % bad.size()] = static_cast<char>(random());
      const std::string path = folder.write("bad.parquet", bad);
      const std::string problem = tests::message_of<DataError>([&] { rows_of(path); });
      if (problem == "(nothing was thrown)") continue;
      EXPECT_TRUE(problem.starts_with(path)) << problem;
      ++errors;
    }
    return errors;
  };
  for (const char* file : {"snappy.parquet", "gzip.parquet", "zstd.parquet"})
    EXPECT_GT(damage(file), 1000) << file;
  // pyarrow writes no checksums of pages by itself; the file's column is a dictionary's in Arrow, too.
  EXPECT_GT(damage("unchecked/dictionary.parquet"), 300);
}

TEST(Parquet, VectorsStandBehindTheBytesOfTheirRowGroup) {
  using Column = ParquetWriter::Column;
  ParquetWriter writer("a.parquet", {{.name = "id"},
                                     {.name = "residues", .kind = Column::kInteger},
                                     {.name = "embedding", .kind = Column::kVector, .width = 2}});
  // The first group has more rows than Arrow puts into a page by itself.
  constexpr int kFirst = 30'000, kRows = kFirst + 1;
  std::string bytes;
  for (int i = 0, begin = 0; i < kRows; ++i) {
    writer.text("p" + std::to_string(i)).integer(i).end_row();
    if (i + 1 != kFirst && i + 1 != kRows) continue;
    bytes += writer.end_group();
    for (; begin <= i; ++begin) {
      const float vector[] = {0.5f * static_cast<float>(begin), -1};
      bytes.append(reinterpret_cast<const char*>(vector), sizeof vector);
    }
  }
  bytes += writer.finish();
  const tests::FilesFolder folder;
  const std::vector<std::string> rows = rows_of(folder.write("a.parquet", bytes));
  ASSERT_EQ(rows.size(), size_t{kRows});
  EXPECT_EQ(rows[1], R"({"id":"p1","residues":1,"embedding":[0.5,-1]})");
  EXPECT_EQ(rows[kFirst - 1], R"({"id":"p29999","residues":29999,"embedding":[14999.5,-1]})");
  EXPECT_EQ(rows[kFirst], R"({"id":"p30000","residues":30000,"embedding":[15000,-1]})");
}

TEST(Parquet, ARowThatLacksAValueIsRefused) {
  ParquetWriter writer("a.parquet", {{.name = "a"}, {.name = "b"}});
  writer.text("one");
  EXPECT_EQ(tests::message_of<DataError>([&] { writer.end_row(); }),
            "a.parquet: cannot be written as Parquet: a row without a value for each of the 2 columns");
}

}  // namespace
}  // namespace pipeline::parquet
