// Files of results: where they cannot be written, the error says where, why, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugins/error.hpp"
#include "core/train/result_file.hpp"
#include "core/train/side_files.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

std::string result_problem(const std::string& path, const std::string& remedy) {
  return tests::message_of<Error>([&] { ResultFile(path, remedy); });
}

std::string side_problem(const fs::path& folder, const std::string& name) {
  return tests::message_of<Error>([&] { write_side_file(folder, name, std::as_bytes(std::span("abc", 3))); });
}

TEST(ResultFile, IsThereWholeOrNotAtAll) {
  const tests::FilesFolder folder;
  { ResultFile(folder / "new/x.json", ""); }
  EXPECT_TRUE(fs::is_empty(folder / "new"));
  ResultFile file(folder / "new/x.json", "");
  EXPECT_FALSE(fs::exists(file.path()));
  file.write("text");
  EXPECT_EQ(tests::read_all(folder / "new/x.json"), "text");
}

TEST(ResultFile, SaysWhatCanBeDoneAboutAPathThatCannotBeWritten) {
  const tests::FilesFolder folder;
  const std::string file = folder.write("file", "x");
  EXPECT_EQ(result_problem(file + "/x.json", "choose another run.dir"),
            file + ": cannot be written: Not a directory: choose another run.dir");
  EXPECT_EQ(result_problem(folder.path(), "choose another --output"),
            folder.path() + ": cannot be written: Is a directory: choose another --output");
}

TEST(SideFiles, AreNamedAfterTheResult) {
  EXPECT_EQ(side_files_of("results/x.csv"), "results/x-files");
  EXPECT_EQ(side_files_of("x"), "x-files");
}

TEST(SideFiles, GoIntoAFolderThatIsMadeAndReplaceOthers) {
  const tests::FilesFolder folder;
  for (const char* text : {"longer", "abc"}) write_side_file(folder / "x-files", "a", std::as_bytes(std::span(std::string_view(text))));
  EXPECT_EQ(tests::read_all(folder / "x-files/a"), "abc");
}

TEST(SideFiles, ErrorsSayPathAndCause) {
  const tests::FilesFolder folder;
  const std::string file = folder.write("file", "x");
  EXPECT_EQ(side_problem(file, "a"), file + ": cannot be written: Not a directory");
  EXPECT_EQ(side_problem(file + "/below", "a"), file + "/below: cannot be written: Not a directory");
  fs::create_directory(folder / "a");
  EXPECT_EQ(side_problem(folder.path(), "a"), folder / "a: cannot be written: Is a directory");
}

TEST(SideFiles, AFullDiskHasItsOwnCodeAndRemedy) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  try {
    write_side_file("/dev", "full", std::as_bytes(std::span("abc", 3)));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_NO_SPACE);
    EXPECT_STREQ(error.what(), "/dev/full: cannot be written: No space left on device: free some space there");
  }
}

}  // namespace
}  // namespace pipeline::train
