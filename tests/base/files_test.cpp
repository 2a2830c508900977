#include "core/base/files.hpp"

#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

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
