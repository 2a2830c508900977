#include <sys/resource.h>

#include <csignal>
#include <future>

#include "core/checkpoint/store.hpp"
#include "core/checkpoint/writer.hpp"
#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/faulty_file_system.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::checkpoint {
namespace {

using testing::ElementsAre;

const std::vector<StateTensor> kOld = make_state(1);
const std::vector<StateTensor> kNew = make_state(2);

// Saves checkpoint `step` over an existing checkpoint of step 1, failing at every file operation in turn.
class Fault : public testing::TestWithParam<std::tuple<uint64_t, bool>> {
 protected:
  // Returns false when the fault came too late to happen.
  bool run(uint64_t fail_at) {
    const auto [step, broken] = GetParam();
    tests::FilesFolder folder;
    Store good({folder.path(), 1, false});
    write(good, contents_of(1), source(kOld));
    FaultyFileSystem files;
    files.fail_at = fail_at;
    files.broken = broken;
    Store store({folder.path(), 1, false}, files);
    try {
      const Saved saved = write(store, contents_of(step), source(kNew));
      EXPECT_EQ(saved.prune_problem, files.failed() ? "injected fault" : "");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), PL_ERROR_NO_SPACE);
      EXPECT_STREQ(error.what(), "injected fault");
      if (!broken) expect_no_leftovers(folder.path());
    }

    good.recover();  // as the next start of the run does
    expect_no_leftovers(folder.path());
    std::vector<Rejected> rejected;
    const std::optional<Checkpoint> checkpoint = good.newest_good(&rejected);
    for (const Rejected& entry : rejected) ADD_FAILURE() << entry.reason;
    EXPECT_TRUE(checkpoint && (holds(*checkpoint, kOld) || holds(*checkpoint, kNew)));

    write(good, contents_of(step), source(kNew));
    EXPECT_THAT(list_folder(folder.path()), ElementsAre(folder_name(step)));
    EXPECT_TRUE(holds(*good.newest_good(), kNew));
    return files.failed();
  }

  void expect_no_leftovers(const std::string& folder) {
    for (const std::string& name : list_folder(folder)) EXPECT_FALSE(name.starts_with(".tmp-")) << name;
  }
};

TEST_P(Fault, LeavesOneOfTheTwoWholeAndTheNextSaveWorks) {
  uint64_t fail_at = 0;
  for (bool failed = true; failed; ++fail_at) {
    SCOPED_TRACE("operation " + std::to_string(fail_at));
    failed = run(fail_at);
  }
  EXPECT_GT(fail_at, 12u);
}

// step 1 replaces the checkpoint that is there, step 2 comes beside it.
std::string name_of(const testing::TestParamInfo<std::tuple<uint64_t, bool>>& tested) {
  const auto [step, broken] = tested.param;
  return std::string(step == 1 ? "replacing" : "new") + (broken ? "_killed" : "_failing_once");
}
INSTANTIATE_TEST_SUITE_P(EveryOperation, Fault, testing::Combine(testing::Values(1, 2), testing::Bool()),
                         name_of);

TEST(FullDisk, IsSeenBeforeAnythingIsWritten) {
  tests::FilesFolder folder;
  FaultyFileSystem files;
  Store store({folder.path(), 1, false}, files);
  write(store, contents_of(1), source(kOld));
  files.free = 1000;
  EXPECT_ERROR(write(store, contents_of(2), source(kNew)), PL_ERROR_NO_SPACE,
               testing::MatchesRegex(store.path_of(2) + ": needs [0-9.]+ kB, the disk has 1\\.0 kB free"));
  EXPECT_THAT(list_folder(folder.path()), ElementsAre("step-00000001"));
}

TEST(FullDisk, OtherErrorsKeepTheirKind) {
  tests::FilesFolder folder;
  FaultyFileSystem files;
  files.fail_at = 5;
  files.code = PL_ERROR_FAILED;
  Store store({folder.path(), 1, false}, files);
  EXPECT_ERROR(write(store, contents_of(2), source(kNew)), PL_ERROR_FAILED, "injected fault");
}

// The file system itself refuses in the middle of a write: a limit on the size of files, hit after some bytes
// went through.
TEST(RealFileSystem, AWriteThatStopsInTheMiddleLeavesTheStoreAsItWas) {
  tests::FilesFolder folder;
  Store store({folder.path()});
  write(store, contents_of(1), source(kOld));
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_ERROR(
      write(store, contents_of(2), source(kNew)), PL_ERROR_FAILED,
      store.temporary_path_of(2) + "/state-00000-of-00001.safetensors: cannot be written: File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(list_folder(folder.path()), ElementsAre("step-00000001"));
  EXPECT_TRUE(holds(*store.newest_good(), kOld));
}

TEST(RealFileSystem, NamesThePathAndTheCause) {
  tests::FilesFolder folder;
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
  EXPECT_ERROR(files.create("/dev/full"), PL_ERROR_FAILED, "/dev/full: cannot be opened: File exists");
  EXPECT_ERROR(read_text(folder.path() + "/gone"), PL_ERROR_FAILED,
               folder.path() + "/gone: cannot be read: No such file or directory");
}

const std::vector<StateTensor> kState = make_state(3);

// Holds its writer up until it is opened.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> open{promise.get_future()};

  PieceSource source_behind() {
    return [gate = open, inner = source(kState)](const PieceVisitor& visit) {
      gate.wait();
      inner(visit);
    };
  }
};

TEST(BackgroundWriter, WritesWhileTheCallerGoesOn) {
  tests::FilesFolder folder;
  Store store({folder.path()});
  BackgroundWriter writer(store);
  EXPECT_FALSE(writer.poll());
  Gate gate;
  EXPECT_FALSE(writer.start(contents_of(1), gate.source_behind()));
  EXPECT_TRUE(writer.busy());
  EXPECT_FALSE(writer.poll());
  gate.promise.set_value();
  const std::optional<Saved> saved = writer.finish();
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->step, 1u);
  EXPECT_GT(saved->bytes, 1000u);
  EXPECT_FALSE(writer.busy());
  EXPECT_FALSE(writer.finish());  // told once
  EXPECT_TRUE(holds(*store.newest_good(), kState));
}

TEST(BackgroundWriter, StartWaitsForTheOneBefore) {
  tests::FilesFolder folder;
  Store store({folder.path()});
  BackgroundWriter writer(store);
  writer.start(contents_of(1), source(kState));
  const std::optional<Saved> first = writer.start(contents_of(2), source(kState));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, 1u);
  EXPECT_EQ(writer.finish()->step, 2u);
}

TEST(BackgroundWriter, ErrorsComeOutOfTheNextCallOnce) {
  tests::FilesFolder folder;
  FaultyFileSystem files;
  files.fail_at = 4;
  Store store({folder.path()}, files);
  BackgroundWriter writer(store);
  writer.start(contents_of(1), source(kState));
  EXPECT_ERROR(writer.start(contents_of(2), source(kState)), PL_ERROR_NO_SPACE, "injected fault");
  EXPECT_FALSE(writer.finish());  // the second one was not started
  writer.start(contents_of(3), source(kState));
  EXPECT_EQ(writer.finish()->step, 3u);

  files.operations = 0;
  writer.start(contents_of(4), source(kState));
  EXPECT_ERROR(writer.finish(), PL_ERROR_NO_SPACE, "injected fault");
}

TEST(BackgroundWriter, ReleasesTheSnapshotWhenDoneAndFinishesInItsDestructor) {
  tests::FilesFolder folder;
  Store store({folder.path()});
  auto snapshot = std::make_shared<int>(0);
  {
    BackgroundWriter writer(store);
    writer.start(contents_of(1),
                 [snapshot, inner = source(kState)](const PieceVisitor& visit) { inner(visit); });
    writer.finish();
    EXPECT_EQ(snapshot.use_count(), 1);
    writer.start(contents_of(2), source(kState));
  }
  EXPECT_EQ(store.newest_good()->contents().step, 2u);
}

}  // namespace
}  // namespace pipeline::checkpoint
