#include "core/base/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/test_files.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

TEST(ReadFile, ReadsFilesAlone) {
  const tests::FilesFolder folder;
  EXPECT_EQ(read_file(folder.write("file", "a\nb")), "a\nb");
  const auto problem = [](const std::string& path) {
    return tests::message_of<Error>([&] { read_file(path); }).substr(path.size());
  };
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_symlink("loop", folder / "loop");
  EXPECT_TRUE(is_there(folder / "fifo"));
  EXPECT_FALSE(is_there(folder / "loop"));
  EXPECT_EQ(problem(folder / "fifo"), ": is a FIFO, must be a file");
  EXPECT_EQ(problem(folder.path()), ": is a folder, must be a file");
  EXPECT_EQ(problem("/dev/zero"), ": is a device, must be a file");
  EXPECT_EQ(problem(folder / "none"), ": cannot be read: No such file or directory");
  EXPECT_EQ(problem(folder / "loop"), ": cannot be read: Too many levels of symbolic links");
}

TEST(WriteAtomically, PutsTheNewContentInPlaceOfTheOld) {
  const tests::FilesFolder folder;
  for (const std::string text : {"longer than the next", "", "abc"}) {
    write_atomically(folder / "file", text);
    EXPECT_EQ(tests::read_all(folder / "file"), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left beside it";
}

TEST(WriteAtomically, KeepsWhatIsThereWhereItFails) {
  const tests::FilesFolder folder;
  const std::string file = folder.write("file", "old");
  fs::create_directory(file + ".tmp");
  EXPECT_EQ(tests::message_of<Error>([&] { write_atomically(file, "new"); }),
            file + ": cannot be written: Is a directory");
  EXPECT_EQ(tests::read_all(file), "old");
}

TEST(WriteAtomically, SaysWhatCanBeDone) {
  const auto problem = [] { write_atomically("/proc/x", "text", "choose another --output"); };
  EXPECT_EQ(tests::message_of<Error>(problem),
            "/proc/x: cannot be written: No such file or directory: choose another --output");
}

}  // namespace
}  // namespace pipeline
