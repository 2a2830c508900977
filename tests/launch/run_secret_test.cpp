// The file by which ranks of several hosts get the secret of their run.
#include "core/launch/run_secret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"

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
