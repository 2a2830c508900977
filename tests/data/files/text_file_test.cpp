// Files that are not text, by how they begin.
#include "plugins/data/files/text_file.hpp"

#include <gmock/gmock.h>

#include "plugins/data/files/regular_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::files {
namespace {

using testing::StartsWith;
using namespace std::string_view_literals;

TEST(TextFile, OthersAreNamed) {
  for (const auto& [start, name] :
       {std::pair("\x1f\x8b\x08"sv, "compressed with gzip"),
        {"\x28\xb5\x2f\xfd"sv, "compressed with zstd"},
        {"PK\x03\x04 data.csv"sv, "a zip archive"},
        {"PK\x03\x04\x14\0[Content_Types].xml"sv, "an Office document"},
        {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an Office document"},
        {"PAR1\x15\x04"sv, "a Parquet file"},
        {"ARROW1\0\0"sv, "an Arrow file"},
        {"\xff\xff\xff\xff\x10\0\0\0"sv, "an Arrow stream"},
        {"\xff\xfe\x64\0"sv, "UTF-16 text"},
        {"\xff\xfe\0\0\x64\0\0\0"sv, "UTF-32 text"},
        {"d\0o\0c\0u\0m\0e\0n\0t\0"sv, "UTF-16 text: convert it first (iconv -f UTF-16LE"},
        {"\0d\0o\0c\0u\0m\0e\0n\0t"sv, "UTF-16 text: convert it first (iconv -f UTF-16BE"},
        {"version https://git-lfs.github.com/spec/v1\n"sv, "is a Git LFS pointer"},
        {"<!DOCTYPE html>"sv, "is a web page"}})
    EXPECT_THAT(why_no_text(start), StartsWith(name));
}

TEST(TextFile, TextIsNot) {
  for (const auto text : {""sv, "document,summary\n"sv, "\xef\xbb\xbfid\n"sv, "[{\"document\": \"PAR1\"}]"sv,
                          "a\0b"sv, "\xe4\xb8\xad\xe6\x96\x87"sv})
    EXPECT_EQ(why_no_text(text), "") << text;
}

TEST(Paths, WhatIsNotThereOrCannotBeReachedIsSaid) {
  const tests::TemporaryFolder folder;
  const std::filesystem::path loop = folder.path() / "loop";
  std::filesystem::create_symlink("loop", loop);
  EXPECT_EQ(path_problem(loop, "file"), "Too many levels of symbolic links");
  EXPECT_EQ(path_problem(folder.path(), "file"), "");
  for (const char* name : {"none", "none/x"})
    EXPECT_THAT(path_problem(folder.path() / name, "file"), StartsWith("there is no such file; a path is"));
}

}  // namespace
}  // namespace pipeline::files
