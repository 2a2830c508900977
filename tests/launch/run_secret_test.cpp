// The file by which ranks of several hosts get the secret of their run.
#include "core/launch/launch.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/child_process.hpp"

namespace pipeline::launch {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunSecretFile : public testing::Test {
 protected:
  RunSecretFile() { fs::remove_all(folder_); }
  ~RunSecretFile() override { fs::remove_all(folder_); }

  World world(int32_t rank) const { return {.rank = rank, .size = 3, .run_id = "a test"}; }
  // Rank 0 of a run with this id, killed while the ranks meet.
  void killed_as(const std::string& run_id) const {
    const pid_t child = tests::in_child([&] {
      World first = world(0);
      first.run_id = run_id;
      const RunSecret secret(first, run_dir_);
      return ::kill(::getpid(), SIGKILL);
    });
    ASSERT_EQ(tests::status_of(child), 200 + SIGKILL);
  }
  std::vector<fs::path> files() const {
    if (!fs::exists(folder_)) return {};
    return {fs::directory_iterator(folder_), fs::directory_iterator()};
  }

  const fs::path folder_ = testing::TempDir() + "run-secret-" + std::to_string(::getpid());
  const fs::path run_dir_ = folder_ / "run";
};

TEST_F(RunSecretFile, IsTheSameForAllRanksUntilTheyHaveMet) {
  World first = world(0), second = world(1), third = world(2);
  const RunSecret one(second, run_dir_);
  {
    const RunSecret zero(first, run_dir_.string() + "/");
    const RunSecret two(third, run_dir_);
    EXPECT_EQ(first.secret.size(), 64u);
    EXPECT_EQ(second.secret, first.secret);
    EXPECT_EQ(third.secret, first.secret);
    ASSERT_EQ(files().size(), 1u);
    struct stat facts {};
    ASSERT_EQ(::stat(files()[0].c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0600u);
  }
  EXPECT_TRUE(files().empty());
  World again = world(0);
  const RunSecret next(again, run_dir_);
  EXPECT_NE(again.secret, first.secret);
}

TEST_F(RunSecretFile, OfAKilledRank0IsUsedByTheNextStart) {
  killed_as("a test");
  ASSERT_EQ(files().size(), 1u);
  World first = world(0), second = world(1);
  {
    const RunSecret one(second, run_dir_), zero(first, run_dir_);
    EXPECT_EQ(first.secret.size(), 64u);
    EXPECT_EQ(second.secret, first.secret);
  }
  EXPECT_TRUE(files().empty());
}

// Until then the file may belong to another run in the same folder, whose ranks are meeting.
TEST_F(RunSecretFile, OfAnotherRunIsRemovedADayLater) {
  killed_as("another run");
  ASSERT_EQ(files().size(), 1u);
  const fs::path left = files()[0], part = left.string() + ".0123456789abcdef",
                 mine = folder_ / ".run.0123456789abcdef.notes";
  for (const fs::path& file : {part, mine}) std::ofstream(file) << "text";
  const auto start = [&] {
    World first = world(0);
    const RunSecret secret(first, run_dir_);
  };
  start();
  EXPECT_EQ(files().size(), 3u) << "all of them are new";
  for (const fs::path& file : {left, part, mine})
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(25));
  start();
  EXPECT_EQ(files(), std::vector{mine});
}

TEST_F(RunSecretFile, IsNotMadeWhereNobodyNeedsIt) {
  World alone{.run_id = "a test"}, told = world(1);
  told.secret = "by hand";
  const RunSecret none(alone, run_dir_), given(told, run_dir_);
  EXPECT_EQ(alone.secret, "");
  EXPECT_EQ(told.secret, "by hand");
  EXPECT_TRUE(files().empty());
}

TEST_F(RunSecretFile, ThatOthersCanReadIsRefused) {
  World maker = world(1), reader = world(2);
  const RunSecret made(maker, run_dir_);
  ASSERT_EQ(files().size(), 1u);
  fs::permissions(files()[0], fs::perms::group_read, fs::perm_options::add);
  try {
    const RunSecret read(reader, run_dir_);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("mode 640, must be"), HasSubstr("PIPELINE_RUN_SECRET")));
  }
}

TEST_F(RunSecretFile, ThatCannotBeMadeIsSaid) {
  std::ofstream(folder_) << "a file, no folder";
  World first = world(0);
  const RunSecret none(first, run_dir_);
  EXPECT_EQ(first.secret, "");
  EXPECT_THAT(none.note(), AllOf(HasSubstr("has no secret"), HasSubstr("Not a directory"),
                                 HasSubstr("PIPELINE_RUN_SECRET")));
}

}  // namespace
}  // namespace pipeline::launch
