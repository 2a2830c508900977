#include "core/checkpoint/store.hpp"
#include "core/checkpoint/writer.hpp"
#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/faulty_file_system.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/checkpoint/temporary_folder.hpp"

namespace pipeline::checkpoint {
namespace {

using testing::ElementsAre;

const std::vector<StateTensor> kOld = make_state(1);
const std::vector<StateTensor> kNew = make_state(2);

bool is_temporary(const std::string& name) { return name.starts_with(".tmp-"); }

// Saves checkpoint `step` over an existing checkpoint of step 1, failing at every file operation in turn.
class Fault : public testing::TestWithParam<std::tuple<uint64_t, bool>> {
 protected:
  // Returns false when the fault came too late to happen.
  void run_all(const std::function<void(FaultyFileSystem&, Store&, const std::string& folder)>& after) {
    const auto [step, broken] = GetParam();
    for (uint64_t fail_at = 0;; ++fail_at) {
      SCOPED_TRACE("operation " + std::to_string(fail_at));
      TemporaryFolder folder;
      Store good({folder.path(), 1, false, false});
      write(good, contents_of(1), source(kOld));
      FaultyFileSystem files;
      files.fail_at = fail_at;
      files.broken = broken;
      Store store({folder.path(), 1, false, false}, files);
      try {
        const Saved saved = write(store, contents_of(step), source(kNew));
        EXPECT_EQ(saved.prune_problem, files.failed() ? "injected fault" : "");
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), PL_ERROR_NO_SPACE);
        EXPECT_STREQ(error.what(), "injected fault");
      }
      if (!files.failed()) {
        EXPECT_GT(fail_at, 10u);
        return;
      }
      after(files, good, folder.path());
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(Fault, LeavesOneOfTheTwoWholeAndTheNextSaveWorks) {
  const auto [step, broken] = GetParam();
  run_all([&, step = step, broken = broken](FaultyFileSystem&, Store& store, const std::string& folder) {
    if (!broken) {
      for (const std::string& name : list_folder(folder))
        EXPECT_FALSE(is_temporary(name) && step != 2) << name;
    }
    store.recover();  // as the next start of the run does
    std::vector<Rejected> rejected;
    const std::optional<Checkpoint> checkpoint = store.newest_good(&rejected);
    ASSERT_TRUE(checkpoint.has_value());
    for (const Rejected& entry : rejected) ADD_FAILURE() << entry.reason;
    EXPECT_TRUE(holds(*checkpoint, kOld) || holds(*checkpoint, kNew));

    write(store, contents_of(step), source(kNew));
    EXPECT_THAT(list_folder(folder), ElementsAre(folder_name(step)));
    EXPECT_TRUE(holds(*store.newest_good(), kNew));
  });
}

// step 1 replaces the checkpoint that is there, step 2 comes beside it.
INSTANTIATE_TEST_SUITE_P(EveryOperation, Fault, testing::Combine(testing::Values(1, 2), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == 1 ? "replacing" : "new") +
                                  (std::get<1>(info.param) ? "_killed" : "_failing_once");
                         });

TEST(FullDisk, IsSeenBeforeAnythingIsWritten) {
  TemporaryFolder folder;
  FaultyFileSystem files;
  Store store({folder.path(), 1, false, false}, files);
  write(store, contents_of(1), source(kOld));
  files.free = 1000;
  EXPECT_ERROR(write(store, contents_of(2), source(kNew)), PL_ERROR_NO_SPACE,
               testing::MatchesRegex(store.path_of(2) +
                                     ": needs 0\\.0 MB, the disk has 0\\.0 MB free: make room, lower "
                                     "checkpoint.keep, or move run.dir to another disk"));
  EXPECT_THAT(list_folder(folder.path()), ElementsAre("step-00000001"));
}

TEST(FullDisk, OtherErrorsKeepTheirKind) {
  TemporaryFolder folder;
  FaultyFileSystem files;
  files.fail_at = 5;
  files.code = PL_ERROR_FAILED;
  Store store({folder.path(), 1, false, false}, files);
  EXPECT_ERROR(write(store, contents_of(2), source(kNew)), PL_ERROR_FAILED, "injected fault");
}

TEST(RealFileSystem, NamesThePathAndTheCause) {
  TemporaryFolder folder;
  FileSystem& files = FileSystem::real();
  EXPECT_ERROR(files.create(folder.path() + "/no/file"), PL_ERROR_FAILED,
               folder.path() + "/no/file: cannot be opened: No such file or directory");
  files.create(folder.path() + "/file")->close();
  EXPECT_ERROR(files.create(folder.path() + "/file"), PL_ERROR_FAILED,
               folder.path() + "/file: cannot be opened: File exists");
  EXPECT_ERROR(files.make_folder(folder.path() + "/file/below"), PL_ERROR_FAILED,
               folder.path() + "/file/below: cannot be made: Not a directory");
  EXPECT_ERROR(
      files.rename(folder.path() + "/gone", folder.path() + "/there"), PL_ERROR_FAILED,
      folder.path() + "/gone: cannot be renamed to " + folder.path() + "/there: No such file or directory");
  EXPECT_GT(files.free_bytes(folder.path()), 0u);
  const std::string text = "x";
  EXPECT_ERROR(files.create("/dev/full"), PL_ERROR_FAILED, "/dev/full: cannot be opened: File exists");
  EXPECT_ERROR(read_text(folder.path() + "/gone"), PL_ERROR_FAILED,
               folder.path() + "/gone: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace pipeline::checkpoint
