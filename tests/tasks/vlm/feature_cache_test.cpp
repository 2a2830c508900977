// The cache of features against other writers, damage, and what only looks the same.
#include "plugins/tasks/vlm/feature_cache.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "tests/support/test_files.hpp"

namespace pipeline::tasks::vlm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kPatches = 4, kWidth = 6;

class FeatureCaches : public testing::Test {
 protected:
  std::unique_ptr<FeatureCache> open(const std::string& settings = "clip", const std::string& weights = "w",
                                     uint64_t most = uint64_t{1} << 30) {
    auto cache = std::make_unique<FeatureCache>(
        FeatureCache::Options{.folder = folder_.path(),
                              .settings = settings,
                              .most_bytes = most,
                              .note = [this](const std::string& line) { said_ += line + "\n"; },
                              .warn = [this](const std::string& line) { said_ += line + "\n"; }});
    cache->open(files::hash128(weights));
    return cache;
  }
  static files::Hash128 key(int picture) { return files::hash128("picture " + std::to_string(picture)); }
  // Features whose number of squares, and what these hold, are functions of the picture's number.
  static llava::PictureFeatures made(int picture) {
    const int64_t squares = 1 + picture % 5;
    return {
        .squares = at::arange(squares * kPatches * kWidth, at::kFloat).reshape({squares, kPatches, kWidth}) +
                   1000.0 * picture,
        .width = 10 + picture,
        .height = 20 + picture};
  }
  static bool is_right(const llava::PictureFeatures& found, int picture) {
    const llava::PictureFeatures expected = made(picture);
    return found.squares.equal(expected.squares) && found.width == expected.width &&
           found.height == expected.height;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().extension() == ".features") found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }

  tests::FilesFolder folder_;
  std::string said_;
};

TEST_F(FeatureCaches, HoldPicturesOfAnyNumberOfSquaresWithTheirSizes) {
  {
    const auto cache = open();
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(cache->find(key(i)).squares.defined());
      cache->put(key(i), made(i));
      EXPECT_TRUE(is_right(cache->find(key(i)), i)) << i;
    }
  }
  const auto again = open();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(is_right(again->find(key(i)), i)) << i;
}

TEST_F(FeatureCaches, OfAnotherEncoderProcessorOrContentAreNeverFound) {
  {
    const auto cache = open("clip squash 1x2", "weights");
    for (int i = 0; i < 5; ++i) cache->put(key(i), made(i));
  }
  for (const auto& [settings, weights] :
       {std::pair("clip squash 2x1", "weights"), std::pair("clip crop 1x2", "weights"),
        std::pair("clip squash 1x2", "weightz"), std::pair("clip squash 1x2 weights", "")}) {
    const auto cache = open(settings, weights);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(cache->find(key(i)).squares.defined()) << settings << weights;
  }
  EXPECT_TRUE(is_right(open("clip squash 1x2", "weights")->find(key(3)), 3));
}

// Each writer has a file of its own; after begin_epoch() each has what the other wrote.
TEST_F(FeatureCaches, TwoWritersDisturbNeitherEachOtherNorReaders) {
  const auto one = open(), two = open();
  EXPECT_EQ(files().size(), 2u) << "each its own";
  constexpr int kPictures = 200;
  std::atomic<int> wrong = 0;
  const auto write = [&](FeatureCache& cache, int first) {
    for (int i = first; i < kPictures; i += 2) cache.put(key(i), made(i));
    for (int i = 0; i < kPictures; i += 7) cache.put(key(i), made(i));  // both writers put these
  };
  const auto read = [&](FeatureCache& cache) {
    for (uint64_t round = 1; round < 20; ++round) {
      cache.begin_epoch(round);
      for (int i = 0; i < kPictures; ++i)
        if (const llava::PictureFeatures found = cache.find(key(i));
            found.squares.defined() && !is_right(found, i))
          ++wrong;
    }
  };
  std::thread writer(write, std::ref(*one), 0), other(write, std::ref(*two), 1);
  std::thread reader(read, std::ref(*one)), second(read, std::ref(*two));
  for (std::thread* thread : {&writer, &other, &reader, &second}) thread->join();
  EXPECT_EQ(wrong, 0);
  for (FeatureCache* cache : {one.get(), two.get()}) {
    cache->begin_epoch(99);
    for (int i = 0; i < kPictures; ++i) EXPECT_TRUE(is_right(cache->find(key(i)), i)) << i;
  }
}

// Whatever is changed, a picture is found as it was or not at all.
TEST_F(FeatureCaches, DamageNeverGivesOtherFeatures) {
  constexpr int kPictures = 12;
  {
    const auto cache = open();
    for (int i = 0; i < kPictures; ++i) cache->put(key(i), made(i));
  }
  const fs::path file = files().at(0);
  const std::string good = tests::read_all(file.string());
  std::mt19937 random(1);
  int lost = 0, found = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bad = good;
    if (round % 4 == 0) bad.resize(random() % bad.size());
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes && !bad.empty(); ++i)
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    folder_.write(file.filename().string(), bad);
    const auto cache = open();
    for (int i = 0; i < kPictures; ++i) {
      const llava::PictureFeatures features = cache->find(key(i));
      ++(features.squares.defined() ? found : lost);
      if (features.squares.defined()) {
        ASSERT_TRUE(is_right(features, i)) << "round " << round << ", picture " << i;
      }
    }
  }
  EXPECT_GT(lost, 400);
  EXPECT_GT(found, 400);
}

TEST_F(FeatureCaches, WhatIsDamagedIsMadeAndKeptAgain) {
  {
    const auto cache = open();
    for (int i = 0; i < 3; ++i) cache->put(key(i), made(i));
  }
  const fs::path file = files().at(0);
  std::string bytes = tests::read_all(file.string());
  bytes[bytes.size() - 9] ^= 1;  // in the last record's payload
  folder_.write(file.filename().string(), bytes);
  {
    const auto cache = open();
    EXPECT_TRUE(is_right(cache->find(key(1)), 1));
    EXPECT_FALSE(cache->find(key(2)).squares.defined());
    cache->put(key(2), made(2));
    EXPECT_TRUE(is_right(cache->find(key(2)), 2));
  }
  EXPECT_TRUE(is_right(open()->find(key(2)), 2)) << "of two with one key the later counts";
}

// A record whose sums are right, and which says of itself what cannot be.
TEST_F(FeatureCaches, SizesThatAreNotThoseOfTheBytesAreRefused) {
  { open()->put(key(0), made(0)); }
  const fs::path file = files().at(0);
  struct Head {
    int64_t dtype, squares, patches, hidden_size, width, height;
  };
  const std::vector<Head> heads{{6, int64_t{1} << 40, 4, 6, 1, 1},
                                {6, 1, -4, -6, 1, 1},
                                {6, 0, 0, 0, 1, 1},
                                {6, 3, 1, 1, 1, 1},
                                {99, 1, 1, 1, 1, 1},
                                {6, 1, int64_t{1} << 62, 4, 1, 1}};
  {
    const stores::Kind kind{.name = "PLVLFEAT", .version = 3, .remedy = ""};
    stores::RecordWriter writer(stores::RecordStore(file.string(), kind), kind);
    for (size_t i = 0; i < heads.size(); ++i)
      writer.append(stores::make_record(key(100 + static_cast<int>(i)),
                                        std::string(files::bytes_of(heads[i])) + std::string(4, '\0')));
    writer.append(stores::make_record(key(200), "short"));
  }
  const auto cache = open();
  for (size_t i = 0; i < heads.size(); ++i)
    EXPECT_FALSE(cache->find(key(100 + static_cast<int>(i))).squares.defined()) << i;
  EXPECT_FALSE(cache->find(key(200)).squares.defined());
  EXPECT_TRUE(is_right(cache->find(key(0)), 0));
}

TEST_F(FeatureCaches, ALimitIsSaidAndKept) {
  const auto cache = open("clip", "w", 3000);
  for (int i = 0; i < 40; ++i) cache->put(key(i), made(i));
  EXPECT_THAT(said_, HasSubstr("are allowed"));
  EXPECT_LE(fs::file_size(files().at(0)), 3000u);
  EXPECT_TRUE(is_right(cache->find(key(0)), 0));
}

}  // namespace
}  // namespace pipeline::tasks::vlm
