#include "plugins/data/proteins/cluster_cache.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temporary_folder.hpp"

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

}  // namespace
}  // namespace pipeline::proteins
