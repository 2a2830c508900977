#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "plugins/data/proteins/cluster_cache.hpp"
#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/split_list.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::proteins {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsEmpty;

class ClusterCacheFile : public testing::Test {
 protected:
  std::vector<uint32_t> get(uint64_t key = 1) {
    return cache.get({.low = key, .high = 0}, 3, [&] {
      ++computed;
      return std::vector<uint32_t>{0, 1, 0};
    });
  }
  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      if (entry.path().extension() == ".bin") return entry.path();
    return {};
  }

  tests::TemporaryFolder folder;
  std::vector<std::string> notes;
  ClusterCache cache{.folder = folder.path().string(),
                     .note = [this](const std::string& line) { notes.push_back(line); },
                     .cancelled = {}};
  int computed = 0;
};

TEST_F(ClusterCacheFile, IsComputedOnce) {
  EXPECT_THAT(get(), ElementsAre(0, 1, 0));
  EXPECT_THAT(get(), ElementsAre(0, 1, 0));
  EXPECT_EQ(computed, 1);
  get(2);
  EXPECT_EQ(computed, 2);
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(ClusterCacheFile, OneThatIsDamagedIsMadeAgain) {
  get();
  std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary) << "x";
  EXPECT_THAT(get(), ElementsAre(0, 1, 0));
  EXPECT_EQ(computed, 2);
  get();
  EXPECT_EQ(computed, 2);
}

TEST_F(ClusterCacheFile, OneThatCannotBeWrittenIsSaidInTheLog) {
  std::ofstream(folder.path() / "file") << "no folder";
  cache.folder = (folder.path() / "file" / "nowhere").string();
  EXPECT_THAT(get(), ElementsAre(0, 1, 0));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("cannot be kept, so every process and run repeats it: " + cache.folder +
                                  "/protein-clusters-"));
  EXPECT_THAT(notes[0], HasSubstr("Not a directory"));
}

TEST_F(ClusterCacheFile, OfTwoThatWantItAtOnceOneComputes) {
  std::atomic<int> times = 0;
  const auto slowly = [&] {
    cache.get({.low = 5, .high = 0}, 1, [&] {
      ++times;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return std::vector<uint32_t>{0};
    });
  };
  { const std::jthread one(slowly), other(slowly); }
  EXPECT_EQ(times, 1);
}

// A kept division of the data is found by all that it depends on.

TEST(SplitList, TheKeyHasEachOptionAndTheListsContent) {
  const tests::FilesFolder folder;
  const std::string list = folder.write("list.tsv", "id\tcluster\na\t1\n");
  const auto key = [&](const std::function<void(ProteinData&)>& change) {
    ProteinData options;
    options.split.by = "clusters";
    options.split.list = list;
    change(options);
    return SplitList::key(options, folder / "cache", {});
  };
  const std::vector<std::function<void(ProteinData&)>> changes{
      [](ProteinData&) {},
      [](ProteinData& o) { o.split.by = "column"; },
      [](ProteinData& o) { o.split.folds = 7; },
      [](ProteinData& o) { o.split.fold = 3; },
      [](ProteinData& o) { o.split.exact_up_to = 10; },
      [](ProteinData& o) { o.split.identity += 1e-9; },  // divides test data of their own, whatever `by` is
      [](ProteinData& o) { o.split.coverage += 1e-9; },
      [&](ProteinData& o) { o.split.list = folder.write("other.tsv", "id\tcluster\na\t2\n"); },
      [](ProteinData& o) { o.split.list.clear(); },
      [](ProteinData& o) { o.data.id_column = "name"; },
      [](ProteinData& o) { o.data.split_column = "part"; },
      [](ProteinData& o) { o.data.cluster_column = "family"; }};
  std::set<std::string> keys;
  for (const auto& change : changes) keys.insert(key(change));
  EXPECT_EQ(keys.size(), changes.size());
  const auto moved = [&](ProteinData& o) {
    o.split.list = folder.write("moved.tsv", "id\tcluster\na\t1\n");
    o.data.min_residues = 5;  // the division's own
    o.cache_dir = "elsewhere";
  };
  EXPECT_EQ(key(moved), key(changes.front()));
}

TEST(Labels, TheKeyHasEachOptionThatSaysWhatIsALabel) {
  const std::vector<std::function<void(LabelConfig&)>> changes{[](LabelConfig&) {},
                                                               [](LabelConfig& o) { o.per = "residue"; },
                                                               [](LabelConfig& o) { o.source = "backbone"; },
                                                               [](LabelConfig& o) { o.column = "stability"; },
                                                               [](LabelConfig& o) { o.missing = "-"; },
                                                               [](LabelConfig& o) {
                                                                 o.classes = {"a", "b"};
                                                               }};
  std::set<std::string> keys;
  for (const std::string objective : {"classes", "numbers"})
    for (const auto& change : changes) {
      LabelConfig options;
      change(options);
      keys.insert(Labels(objective, options).key());
    }
  EXPECT_EQ(keys.size(), 2 * changes.size());
}

}  // namespace
}  // namespace pipeline::proteins
