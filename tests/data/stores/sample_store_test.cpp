// Files of samples: what is read is what was written. Damage of each byte: token_store_test.cpp.
#include "plugins/data/stores/sample_store.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "plugins/data/files/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::stores {
namespace {

constexpr SampleKind kKind{.name = "TESTFILE", .version = 1};
const Hash128 kKey{1, 2};

std::string payload(uint64_t i) { return std::string(i % 50, static_cast<char>('a' + i % 26)); }

class Samples : public testing::Test {
 protected:
  void write(uint64_t count, const std::string& summary = "of all") const {
    SampleWriter writer(path_, kKind);
    for (uint64_t i = 0; i < count; ++i) writer.append(payload(i));
    writer.finish(kKey, summary);
  }

  tests::FilesFolder folder_;
  std::string path_ = folder_ / "samples";
};

TEST_F(Samples, AreReadInAnyOrder) {
  for (const uint64_t count :
       {uint64_t{0}, uint64_t{1}, kSamplesAnIndex, kSamplesAnIndex + 1, uint64_t{20000}}) {
    write(count);
    const SampleStore store(path_, kKind, kKey);
    ASSERT_TRUE(store.is_whole()) << store.problem();
    ASSERT_EQ(store.size(), count);
    EXPECT_EQ(store.summary(), "of all");
    for (uint64_t i = count; i-- > 0;) {
      const Sample sample = store[i];
      ASSERT_EQ(sample.payload(), payload(i)) << i;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(sample.payload().data()) % 8, 0u);
      ASSERT_EQ(store.bytes(i), payload(i).size());
    }
  }
}

TEST_F(Samples, TheirContentIsKnownByItsHash) {
  write(100);
  const Hash128 first = SampleStore(path_, kKind, kKey).content();
  write(100, "another");
  EXPECT_EQ(SampleStore(path_, kKind, kKey).content(), first);
  write(101);
  EXPECT_NE(SampleStore(path_, kKind, kKey).content(), first);
}

TEST_F(Samples, OfAnotherKindOrKeyAreNotRead) {
  EXPECT_FALSE(SampleStore(path_, kKind, kKey).is_whole());
  EXPECT_EQ(SampleStore(path_, kKind, kKey).problem(), "");
  write(3);
  EXPECT_NE(SampleStore(path_, {.name = "TESTFILE", .version = 2}, kKey).problem(), "");
  EXPECT_NE(SampleStore(path_, kKind, {2, 1}).problem(), "");
}

TEST_F(Samples, AreMadeOnceAndAgainWhereTheyAreDamaged) {
  int fills = 0;
  std::string notes;
  files::Hooks hooks;
  hooks.note = [&](const std::string& note) { notes += note; };
  const auto open = [&] {
    return open_or_fill(path_, kKind, kKey, "reading", hooks, [&](SampleWriter& writer) {
      ++fills;
      writer.append("one");
      return std::string("all");
    });
  };
  EXPECT_EQ(open()[0].payload(), "one");
  EXPECT_EQ(open().summary(), "all");
  EXPECT_EQ(fills, 1);
  std::filesystem::resize_file(path_, 100);
  EXPECT_EQ(open()[0].payload(), "one");
  EXPECT_EQ(fills, 2);
  EXPECT_EQ(notes, path_ + ": its end is missing or damaged: it is made again");
  EXPECT_THROW(open_or_fill(path_, kKind, {7, 7}, "reading", hooks,
                            [](SampleWriter&) -> std::string { throw files::Cancelled(); }),
               files::Cancelled);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

}  // namespace
}  // namespace pipeline::stores
