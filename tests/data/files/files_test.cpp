// Files that are not text, by how they begin.
#include <sys/stat.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/files/text_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::files {
namespace {

using testing::StartsWith;
using namespace std::string_view_literals;
using testing::HasSubstr;
using namespace std::string_literals;

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

// Files of a model's folder, and what may stand in their place.

TEST(RegularFile, IsReadWhereItIsOne) {
  const tests::FilesFolder folder;
  const auto problem = [&](const std::string& name, uint64_t most = kMostSettings) {
    return tests::message_of<DataError>([&] { read_regular(folder / name, most); });
  };
  const std::string text = "a\0b"s + std::string(200'000, 'c');
  EXPECT_EQ(read_regular(folder.write("good", text), text.size()), text);
  EXPECT_EQ(read_regular(folder.write("empty", ""), 0), "");
  EXPECT_THAT(problem("good", text.size() - 1), HasSubstr("good: has more than 200002 bytes"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(problem("pipe"), folder / "pipe: is a pipe (FIFO), must be a regular file");
  std::filesystem::create_directory(folder / "folder");
  EXPECT_EQ(problem("folder"), folder / "folder: is a folder, must be a regular file");
  std::filesystem::create_symlink("/dev/zero", folder / "endless");
  EXPECT_EQ(problem("endless"), folder / "endless: is a device, must be a regular file");
  EXPECT_THAT(problem("none"), HasSubstr("none: cannot be read: No such file"));
  folder.write("pointer", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(problem("pointer"), HasSubstr("pointer: is a Git LFS pointer"));
}

// What went wrong with data or a disk, as the error that leaves a task.

// The code and the message of what `work` throws.
template <class Work>
std::pair<uint32_t, std::string> error_of(Work&& work) {
  try {
    with_data_errors(work);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

TEST(DataErrors, HaveTheCodeOfTheirCause) {
  for (const auto& [cause, code] : {std::pair(0, PL_ERROR_CONFIG),
                                    {ENOENT, PL_ERROR_CONFIG},
                                    {EACCES, PL_ERROR_CONFIG},
                                    {ENOSPC, PL_ERROR_NO_SPACE},
                                    {EDQUOT, PL_ERROR_NO_SPACE},
                                    {EIO, PL_ERROR_FAILED},
                                    {EFBIG, PL_ERROR_FAILED},
                                    {EMFILE, PL_ERROR_FAILED}}) {
    const std::pair expected(code, std::string("x.tokens: no"));
    EXPECT_EQ(error_of([cause = cause]() -> int { throw DataError("x.tokens: no", cause); }), expected)
        << cause;
  }
  EXPECT_EQ(error_of([] { throw Cancelled(); }).first, PL_ERROR_CANCELLED);
  EXPECT_EQ(with_data_errors([] { return 7; }), 7);
}

TEST(DataErrors, OfTheLibraryAreSaidInItsUsersWords) {
  const auto fail = [](int code) {
    return error_of([&] {
      throw std::filesystem::filesystem_error("cannot rename", "cache/a", "cache/b",
                                              {code, std::generic_category()});
    });
  };
  EXPECT_EQ(fail(ENOSPC), std::pair(PL_ERROR_NO_SPACE,
                                    std::string("cache/a: No space left on device: free some space there")));
  EXPECT_EQ(fail(ENOTDIR),
            std::pair(PL_ERROR_CONFIG,
                      std::string("cache/a: Not a directory: check the path and its permissions")));
}

}  // namespace
}  // namespace pipeline::files
