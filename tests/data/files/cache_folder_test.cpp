#include "plugins/data/files/cache_folder.hpp"

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/data/files/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::files {
namespace {

namespace fs = std::filesystem;

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

}  // namespace
}  // namespace pipeline::files
