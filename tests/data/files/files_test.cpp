// Files that are not text, by how they begin.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "plugins/data/files/base64.hpp"
#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/files/unique_names.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::files {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
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

TEST(Hash128, EqualsMurmurHash3) {
  EXPECT_EQ(hash128("").hex(), std::string(32, '0'));
  EXPECT_EQ(hash128("hello").hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(hash128("The quick brown fox jumps over the lazy dog").hex(), "e34bbc7bbc071b6c7a433ca9c49a9347");
}

TEST(Hash128, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  for (size_t step = 1; step < 50; ++step) {
    Hasher128 hasher;
    for (size_t at = 0; at < text.size(); at += step) hasher.update(std::string_view(text).substr(at, step));
    EXPECT_EQ(hasher.finish(), hash128(text)) << step;
  }
}

// The examples of RFC 4648, section 10.
TEST(Base64, IsDecoded) {
  for (const auto& [text, bytes] : {std::pair("", ""),
                                    {"Zg==", "f"},
                                    {"Zm8=", "fo"},
                                    {"Zm9v", "foo"},
                                    {"Zm9vYg==", "foob"},
                                    {"Zm9vYmE=", "fooba"},
                                    {"Zm9vYmFy", "foobar"},
                                    {"Zm9vYg", "foob"}})
    EXPECT_EQ(base64_decode(text), bytes) << text;
  EXPECT_EQ(base64_decode("/+8="), "\xff\xef");
}

TEST(Base64, WhatIsNoneIsRefused) {
  for (const char* text : {"Z", "Zm9v\n", "Zm=v", "Zg===", "Zm 9", "\xc3\xbc=="})
    EXPECT_FALSE(base64_decode(text)) << text;
}

void make_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 31));
}

TEST(Unused, OldEntriesWithAMatchingNameAreRemovedAndNamed) {
  const tests::FilesFolder folder;
  for (const auto* name : {"old.cache", "new.cache", "old.txt", "used.cache"}) folder.write(name, "x");
  fs::create_directory(folder / "folder.cache");
  folder.write("folder.cache/a", std::string(2'000'000, 'x'));
  for (const auto* name : {"old.cache", "old.txt", "used.cache", "folder.cache"}) make_old(folder / name);
  mark_used(folder / "used.cache");
  const auto line = remove_unused(folder.path(), std::regex(".*\\.cache"));
  EXPECT_NE(line.find("old.cache (0.0 MB)"), std::string::npos) << line;
  EXPECT_NE(line.find("folder.cache (2.0 MB)"), std::string::npos) << line;
  EXPECT_FALSE(fs::exists(folder / "old.cache") || fs::exists(folder / "folder.cache"));
  EXPECT_TRUE(fs::exists(folder / "new.cache") && fs::exists(folder / "old.txt") &&
              fs::exists(folder / "used.cache"));
  EXPECT_EQ(remove_unused(folder.path(), std::regex(".*\\.cache")), "");
}

// Opening a pipe would wait for its other end, and no signal would end that.
TEST(Lock, APipeInPlaceOfItsFileIsRefused) {
  const tests::FilesFolder folder;
  ASSERT_EQ(::mkfifo((folder / "lock").c_str(), 0600), 0);
  EXPECT_EQ(tests::message_of<DataError>([&] { FileLock(folder / "lock", nullptr, nullptr); }),
            folder / "lock: is a pipe (FIFO), must be a regular file: remove it: it is made again");
}

// Files of locks would be left for every state that a file ever had.
TEST(Lock, ItsFileGoesWithItAndStillOneAtATimeHasIt) {
  const tests::FilesFolder folder;
  std::atomic<int> inside = 0, most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 5; ++k) {
          const FileLock lock(folder / "lock", nullptr, nullptr);
          const int now = ++inside;
          if (now > most) most = now;
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          --inside;
        }
      });
  }
  EXPECT_EQ(most, 1);
  EXPECT_FALSE(fs::exists(folder / "lock"));
}

TEST(Unused, ALockThatIsHeldStays) {
  const tests::FilesFolder folder;
  folder.write("left.lock", "");
  const FileLock held(folder / "held.lock", nullptr, nullptr);
  for (const auto* name : {"left.lock", "held.lock"}) make_old(folder / name);
  EXPECT_EQ(remove_unused(folder.path(), std::regex(".*")), "");
  EXPECT_TRUE(fs::exists(folder / "held.lock"));
  EXPECT_FALSE(fs::exists(folder / "left.lock"));
}

TEST(Unused, AFolderThatIsNotThereHoldsNothingUnused) {
  EXPECT_EQ(remove_unused("/no/such/folder", std::regex(".*")), "");
}

TEST(Names, AreShortWhereThatTellsThingsApart) {
  EXPECT_THAT(tell_apart({"1abc_A", "1abc_B", "2xyz"}, {"1abc:A", "1abc:B", "2xyz"}),
              ElementsAre("1abc_A", "1abc_B", "2xyz"));
}

TEST(Names, AreLongWhereOthersAreTheSame) {
  EXPECT_THAT(tell_apart({"1abc_A", "1abc_A", "1abc_B"}, {"1abc:A", "1abc_A", "1abc:B"}),
              ElementsAre("1abc:A", "1abc_A", "1abc_B"));
}

TEST(Names, ALongNameThatIsAnothersShortOneIsNotTakenTwice) {
  EXPECT_THAT(tell_apart({"a", "a", "long-a"}, {"long-a", "other-a", "third"}),
              ElementsAre("long-a", "other-a", "third"));
}

TEST(Names, AreNumberedWhereNothingElseTellsThemApart) {
  EXPECT_THAT(tell_apart({"a", "a", "a-2", "a"}, {"a", "a", "a-2", "a"}),
              ElementsAre("a", "a-3", "a-2", "a-4"));
}

TEST(FileNames, HaveNoFolders) {
  EXPECT_THAT(file_names({"more/p1_A", "p2", "x/../y"}), ElementsAre("more-p1_A", "p2", "x-..-y"));
}

TEST(FileNames, HaveNothingThatAShellTakesForItsOwn) {
  EXPECT_THAT(file_names({"sp|P69905|HBA_HUMAN", "a*b?<c>", "x~2", "$HOME", ".hidden", "-rf", "1abc:A"}),
              ElementsAre("sp-P69905-HBA_HUMAN", "a-b--c-", "x-2", "_HOME", "_hidden", "_rf", "1abc:A"));
}

TEST(FileNames, AreUnmistakableWhereTheUsualOnesWouldBeTheSame) {
  EXPECT_THAT(file_names({"x/y", "x-y", "z/y"}), ElementsAre("x%2Fy", "x-y", "z-y"));
  const std::vector<std::string> tricky{"x/y", "x-y", "x%2Fy", "x\ny", "x%0Ay"};
  const std::vector<std::string> files = file_names(tricky);
  EXPECT_EQ(std::set<std::string>(files.begin(), files.end()).size(), tricky.size());
  for (const std::string& file : files) EXPECT_EQ(file.find_first_of("/\n"), std::string::npos) << file;
}

TEST(FileNames, AreNotLongerThanAFileSystemTakes) {
  const std::string folders(300, 'd'),
      letters = std::string(182, 'd') + "\u00e4\u00e4\u00e4" + std::string(60, 'd');
  const std::vector<std::string> files = file_names({folders + "/a", folders + "/b", letters});
  EXPECT_NE(files[0], files[1]);
  for (const std::string& file : files) {
    EXPECT_LE(file.size(), 200u);
    EXPECT_TRUE(file.starts_with("ddd"));
  }
  EXPECT_EQ(files[2].find("\xc3-"), std::string::npos) << "cut within a letter";
}

}  // namespace
}  // namespace pipeline::files
