// Plain text as records, and its files as sources.
#include <filesystem>

#include <gmock/gmock.h>

#include "plugins/data/records/pair_source.hpp"
#include "tests/data/records/reading.hpp"

namespace pipeline::records {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlainTexts : public testing::Test {
 protected:
  // "id: text" of each, in order.
  std::vector<std::string> read(const std::string& named, TextUnit unit, uint64_t most = 1 << 20) {
    PairSource source{.files = sources::find(named, sources::Content::kTexts),
                      .columns = {.first = "text", .second = "", .second_required = false},
                      .max_record_bytes = most,
                      .text_unit = unit};
    std::vector<std::string> all;
    report_ = source.read_on_threads<std::string>(
        {.threads = 2}, [](const Pair& pair) { return pair.id + ": " + pair.first; },
        [&](std::string&& text) { all.push_back(std::move(text)); });
    return all;
  }
  std::string put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    return folder_.write(name, text);
  }

  tests::FilesFolder folder_;
  stores::TokenReport report_;
};

TEST_F(PlainTexts, AreFilesLinesOrParagraphs) {
  const std::string path = put("a.txt", "\xEF\xBB\xBFOne\r\ntwo\n\n \t\n\nthree\nfour");
  EXPECT_THAT(read(path, TextUnit::kFile), ElementsAre("1: One\r\ntwo\n\n \t\n\nthree\nfour"));
  EXPECT_THAT(read(path, TextUnit::kLine), ElementsAre("1: One", "2: two", "3: three", "4: four"));
  EXPECT_THAT(read(path, TextUnit::kParagraph), ElementsAre("1: One\r\ntwo", "2: three\nfour"));
}

TEST_F(PlainTexts, OfAFolderAreThoseBelowIt) {
  put("books/b.txt", "second");
  put("books/a.md", "first");
  put("books/deep/er/training of dogs.txt", "third");
  put("books/picture.png", "no text");
  EXPECT_THAT(read(folder_ / "books", TextUnit::kFile),
              ElementsAre("a.md:1: first", "b.txt:1: second", "training of dogs.txt:1: third"));
  put("books/train.txt", "x");
  put("books/test.txt", "x");
  EXPECT_THAT(tests::message_of<DataError>([&] { read(folder_ / "books", TextUnit::kFile); }),
              HasSubstr("has files of several splits"));
}

TEST_F(PlainTexts, ThatCannotBeUsedAreCounted) {
  const std::string path = put("a.txt", "good\n" + std::string(5000, 'x') + "\n\xFF\xFE wrong\nlast");
  EXPECT_THAT(read(path, TextUnit::kLine, 1024), ElementsAre("1: good", "4: last"));
  EXPECT_EQ(report_.records, 4u);
  EXPECT_THAT(report_.drops, HasSubstr("1: not valid UTF-8"));
  EXPECT_THAT(report_.drops, HasSubstr("1: the record is too long"));
  EXPECT_THAT(read(put("long.txt", std::string(5000, 'x')), TextUnit::kFile, 1024), testing::SizeIs(1));
  EXPECT_THAT(tests::message_of<DataError>([&] { read(put("blank.txt", " \n\n"), TextUnit::kFile); }),
              HasSubstr("blank.txt"));
}

TEST_F(PlainTexts, AreNoRecordsForOtherTasks) {
  EXPECT_THAT(tests::message_of<DataError>([&] { sources::find(put("a.txt", "text")); }),
              HasSubstr("is plain text, which the task pretraining reads: this one reads .jsonl"));
}

}  // namespace
}  // namespace pipeline::records
