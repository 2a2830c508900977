#include "core/checkpoint/writer.hpp"

#include <future>

#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/faulty_file_system.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::checkpoint {
namespace {

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
