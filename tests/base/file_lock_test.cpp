// Who writes the same result at the same time: refused, or one after the other.
#include "core/base/file_lock.hpp"

#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/base/socket.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

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
