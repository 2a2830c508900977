#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/files.hpp"
#include "core/base/socket.hpp"
#include "tests/support/temporary_folder.hpp"
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

// Who writes the same result at the same time: refused, or one after the other.

class OutputLocks : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return temporary_.path() / name; }
  std::string problem_of(const fs::path& place) const {
    return tests::message_of<Error>([&] { const OutputLock lock(place, place, "choose another --output"); },
                                    "none");
  }
  std::string refusal_of(const fs::path& place) const {
    return place.string() + ": process " + std::to_string(::getpid()) + " on " + host_name() +
           " writes there: wait for it, stop it, or choose another --output";
  }

 private:
  const tests::TemporaryFolder temporary_;
};

TEST_F(OutputLocks, NameTheOtherProcessAndLeaveNothing) {
  {
    const OutputLock lock(path("new/x.csv"), path("new/x-files"), "");
    EXPECT_EQ(problem_of(path("new/x-files")), refusal_of(path("new/x-files")));
    EXPECT_EQ(problem_of(path("new/y-files")), "none");
  }
  EXPECT_EQ(problem_of(path("new/x-files")), "none");
  EXPECT_TRUE(fs::is_empty(path("new")));
}

TEST_F(OutputLocks, HoldForOtherNamesOfTheSameFolder) {
  fs::create_directories(path("a/x-files"));
  fs::create_directory_symlink(path("a"), path("b"));
  fs::create_directory_symlink(path("a/x-files"), path("y-files"));
  const OutputLock lock(path("a/x.csv"), path("a/x-files"), "");
  for (const char* other : {"b/x-files", "a/../b/./x-files", "y-files"})
    EXPECT_EQ(problem_of(path(other)), refusal_of(path(other)));
}

TEST_F(OutputLocks, HoldForWhatIsInsideAndAround) {
  const OutputLock lock(path("a/b/x.csv"), path("a/b/x-files"), "");
  EXPECT_EQ(problem_of(path("a/b/x-files/c/d-files")), refusal_of(path("a/b/x-files/c/d-files")));
  EXPECT_EQ(problem_of(path("a")), refusal_of(path("a")));
  EXPECT_EQ(problem_of(path("a/b/other")), "none");
}

TEST_F(OutputLocks, ThatAKilledProcessHasLeftStopNobody) {
  std::ofstream(path(".x-files.lock")) << "1 on nowhere";
  EXPECT_EQ(problem_of(path("x-files")), "none");
  EXPECT_TRUE(fs::is_empty(path("")));
}

TEST_F(OutputLocks, FilesThatTwoWriteAtOnceAreOneOfThem) {
  const std::string texts[] = {std::string(300'000, 'a'), std::string(200'000, 'b')};
  const fs::path file = path("page.html");
  write_atomically(file, texts[0]);
  std::vector<std::jthread> writers;
  for (const std::string& text : texts)
    writers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) write_atomically(file, text);
    });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(file);
    ASSERT_TRUE(seen == texts[0] || seen == texts[1]) << seen.size();
  }
  writers.clear();
  EXPECT_FALSE(fs::exists(path("page.html.tmp")));
}

}  // namespace
}  // namespace pipeline
