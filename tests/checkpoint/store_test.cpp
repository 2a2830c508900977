#include "core/checkpoint/store.hpp"

#include <cmath>
#include <fstream>

#include "core/checkpoint/writer.hpp"
#include "tests/checkpoint/expect_error.hpp"
#include "tests/checkpoint/state.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  Store make(uint64_t keep, bool keep_best = true) { return Store({checkpoints_, keep, keep_best}); }
  Saved save(Store& store, uint64_t step, std::optional<double> metric = std::nullopt) {
    return write(store, contents_of(step, metric), source(make_state(static_cast<uint32_t>(step))));
  }
  Saved save(Store& store, uint64_t step, const Metric& metric) {
    Contents contents = contents_of(step);
    contents.metric = metric;
    return write(store, contents, source(make_state(static_cast<uint32_t>(step))));
  }
  std::vector<std::string> names() { return list_folder(checkpoints_); }

  tests::FilesFolder folder_;
  std::string checkpoints_ = folder_.path() + "/checkpoints";
};

TEST(StepFolder, NamesAreExact) {
  EXPECT_EQ(folder_name(123), "step-00000123");
  EXPECT_EQ(step_of("step-00000123"), 123u);
  EXPECT_EQ(step_of("step-123456789"), 123456789u);
  for (const char* name : {"step-123", "step-0000012x", "step--0000123", "step-000000123", "Step-00000123",
                           "step-", "step-99999999999999999999999"}) {
    EXPECT_EQ(step_of(name), std::nullopt) << name;
  }
}

TEST_F(StoreTest, AnEmptyOrMissingFolderHoldsNothing) {
  Store store = make(3);
  EXPECT_THAT(store.scan().checkpoints, IsEmpty());
  EXPECT_EQ(store.newest_good(), std::nullopt);
  EXPECT_FALSE(store.best());
  EXPECT_THAT(store.recover(), IsEmpty());
  EXPECT_THAT(store.prune(10), IsEmpty());
}

TEST_F(StoreTest, KeepsTheNewestAndTheBest) {
  Store store = make(2);
  save(store, 10, 5.0);
  save(store, 20, 3.0);
  EXPECT_THAT(save(store, 30, 4.0).pruned, ElementsAre("step-00000010"));
  EXPECT_THAT(save(store, 40, 3.0).pruned, IsEmpty());  // 20 is the best, being the first of equals
  EXPECT_THAT(save(store, 50).pruned, ElementsAre("step-00000030"));
  EXPECT_THAT(names(), ElementsAre("step-00000020", "step-00000040", "step-00000050"));
  EXPECT_EQ(store.best()->step, 20u);
  EXPECT_EQ(store.newest_good()->contents().step, 50u);
}

TEST_F(StoreTest, KeepZeroKeepsAllAndKeepBestCanBeSwitchedOff) {
  Store all = make(0);
  for (uint64_t step = 1; step <= 5; ++step) save(all, step, static_cast<double>(step));
  EXPECT_EQ(names().size(), 5u);
  Store one = make(1, false);
  save(one, 6, 9.0);
  EXPECT_THAT(names(), ElementsAre("step-00000006"));
}

TEST_F(StoreTest, HigherMayBeBetter) {
  Store store = make(1);
  save(store, 1, Metric{"rougeL", 0.5, true});
  save(store, 2, Metric{"rougeL", 0.4, true});
  EXPECT_EQ(store.best()->step, 1u);
  EXPECT_EQ(open_any(checkpoints_, Which::kBest).contents().step, 1u);
}

TEST_F(StoreTest, FiguresOfAnotherNameAreNotCompared) {
  Store store = make(0);
  save(store, 1, 2.5);  // a loss
  save(store, 2, Metric{"rougeL", 0.3, true});
  save(store, 3, Metric{"rougeL", 0.2, true});
  save(store, 4);
  EXPECT_EQ(store.best()->step, 2u);
}

TEST_F(StoreTest, AMetricThatIsNotFiniteIsKeptButNeverBest) {
  Store store = make(0);
  save(store, 1, std::nan(""));
  EXPECT_FALSE(store.best());
  save(store, 2, 7.0);
  save(store, 3, -INFINITY);
  save(store, 4, INFINITY);
  EXPECT_EQ(store.best()->step, 2u);
  EXPECT_TRUE(std::isnan(Checkpoint::open(store.path_of(1)).contents().metric->value));
  EXPECT_EQ(Checkpoint::open(store.path_of(3)).contents().metric->value, -INFINITY);
  EXPECT_EQ(Checkpoint::open(store.path_of(4)).contents().metric->value, INFINITY);
}

TEST_F(StoreTest, NewerOnesOfAnAbandonedContinuationDoNotPushOutGoodOnes) {
  Store store = make(2);
  for (const uint64_t step : {10, 20, 90, 100}) save(store, step);
  Store next = make(2);
  save(next, 30);
  EXPECT_THAT(names(), ElementsAre("step-00000030", "step-00000090", "step-00000100"));
}

TEST_F(StoreTest, NeverPrunesTheNewestSoundOne) {
  Store store = make(1);
  save(store, 1);
  store.set_sound(1);
  save(store, 2);  // whether it is sound is not known yet
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002"));
  save(store, 3);
  save(store, 4);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000004"));
  EXPECT_EQ(store.newest_sound()->step, 1u);
  store.set_sound(4);
  save(store, 5);
  EXPECT_THAT(names(), ElementsAre("step-00000004", "step-00000005"));
}

TEST_F(StoreTest, SetsAsideWhatCameAfterTheNewestSoundOne) {
  Store store = make(0);
  for (const uint64_t step : {1, 2, 3, 4, 9}) save(store, step);
  EXPECT_THAT(store.set_aside(4), IsEmpty()) << "there would be none left to go on from";
  store.set_sound(2);
  EXPECT_THAT(store.set_aside(4), ElementsAre("diverged-step-00000004", "diverged-step-00000003"));
  EXPECT_THAT(names(), ElementsAre("diverged-step-00000003", "diverged-step-00000004", "step-00000001",
                                   "step-00000002", "step-00000009"));
  EXPECT_EQ(store.scan().rejected[0].reason, "was set aside when the run diverged");
  save(store, 4);
  EXPECT_THAT(store.set_aside(4), ElementsAre("diverged-step-00000004"));
}

TEST_F(StoreTest, ForeignThingsAreNamedAndLeftAlone) {
  Store store = make(1);
  save(store, 1);
  fs::create_directories(checkpoints_ + "/backup");
  fs::create_directories(checkpoints_ + "/step-00000005");
  fs::copy(store.path_of(1), checkpoints_ + "/step-00000003");
  std::ofstream(checkpoints_ + "/notes.txt") << "mine";
  save(store, 2);
  const Scan scan = store.scan();
  ASSERT_EQ(scan.checkpoints.size(), 1u);
  EXPECT_EQ(scan.checkpoints[0].step, 2u);
  std::vector<std::string> reasons;
  for (const Rejected& entry : scan.rejected) reasons.push_back(entry.name + ": " + entry.reason);
  EXPECT_THAT(
      reasons,
      ElementsAre("backup: is not a checkpoint: its name is not of the form step-00000123",
                  "notes.txt: is not a checkpoint: its name is not of the form step-00000123",
                  "step-00000003: " + checkpoints_ + "/step-00000003: is of step 1: the folder was renamed",
                  "step-00000005: " + checkpoints_ +
                      "/step-00000005/manifest.json: is missing: not a complete checkpoint"));
}

TEST_F(StoreTest, RecoverPutsRightWhatAKilledRunLeft) {
  Store store = make(0);
  for (const uint64_t step : {1, 2, 3}) save(store, step);
  fs::create_directories(store.temporary_path_of(4));
  fs::rename(store.path_of(2), store.replaced_path_of(2));  // killed before its successor moved in
  fs::copy(store.path_of(3), store.replaced_path_of(3));    // killed after
  fs::create_directories(checkpoints_ + "/.tmp-else");      // not ours
  EXPECT_THAT(
      store.recover(),
      ElementsAre(
          store.path_of(2) + ": brought back, its successor was not complete when the run was killed",
          store.replaced_path_of(3) + ": removed, its successor is complete",
          store.temporary_path_of(4) + ": removed, left half-written or half-removed by a killed run"));
  EXPECT_THAT(names(), ElementsAre(".tmp-else", "step-00000001", "step-00000002", "step-00000003"));
  EXPECT_THAT(store.recover(), IsEmpty());
}

TEST_F(StoreTest, OpenAnyTakesACheckpointAFolderOfThemOrARunsFolder) {
  Store store = make(0);
  save(store, 1, 0.5);
  save(store, 2, 0.7);
  EXPECT_EQ(open_any(store.path_of(1), Which::kLast).contents().step, 1u);
  EXPECT_EQ(open_any(checkpoints_, Which::kLast).contents().step, 2u);
  EXPECT_EQ(open_any(checkpoints_, Which::kBest).contents().step, 1u);
  EXPECT_EQ(open_any(folder_.path(), Which::kBest).contents().step, 1u);
}

TEST_F(StoreTest, OpenAnyPassesOverADamagedBestAndNamesIt) {
  Store store = make(0);
  for (const uint64_t step : {1, 2, 3}) save(store, step, static_cast<double>(step));
  std::filesystem::resize_file(store.path_of(1) + "/state-00000-of-00001.safetensors", 10);
  std::vector<Rejected> rejected;
  EXPECT_EQ(open_any(folder_.path(), Which::kBest, &rejected).contents().step, 2u);
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].name, "step-00000001");
}

TEST_F(StoreTest, OpenAnyFallsBackToTheLastWithoutMetricsAndSaysWhatItLacks) {
  Store store = make(0);
  save(store, 1);
  save(store, 2);
  EXPECT_EQ(open_any(folder_.path(), Which::kBest).contents().step, 2u);

  fs::remove(store.path_of(1) + "/manifest.json");
  fs::remove(store.path_of(2) + "/state-00000-of-00001.safetensors");
  EXPECT_ERROR(open_any(folder_.path(), Which::kLast), PL_ERROR_CONFIG,
               folder_.path() +
                   ": holds no good checkpoint; give a checkpoint (a folder with manifest.json), a folder of "
                   "them (step-00000123), or a run's folder (with checkpoints/ in it)\n"
                   "  step-00000001: " +
                   store.path_of(1) +
                   "/manifest.json: is missing: not a complete checkpoint\n"
                   "  step-00000002: " +
                   store.path_of(2) + "/state-00000-of-00001.safetensors: is missing");
  EXPECT_ERROR(
      open_any(folder_.path() + "/nowhere", Which::kLast), PL_ERROR_CONFIG,
      folder_.path() + "/nowhere: there is no such folder: train first, or give the path of a checkpoint");
}

}  // namespace
}  // namespace pipeline::checkpoint
