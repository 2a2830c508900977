#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/data/sequences/sequence_store.hpp"
#include "plugins/data/structures/structure.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::sequences {
namespace {

namespace fs = std::filesystem;

struct Folder {
  tests::FilesFolder files;
  std::string cache = files / "cache";

  SequenceStore open(const std::string& path, const Columns& columns = {}) const {
    const auto source = sources::find_and_hash(path, cache, {}, sources::Content::kSequences);
    return SequenceStore::open(source, {.cache_folder = cache, .columns = columns, .read = {}}, {});
  }
  size_t stores() const {
    return static_cast<size_t>(std::ranges::count_if(fs::directory_iterator(cache), [](const auto& entry) {
      return entry.path().extension() == ".sequences";
    }));
  }
};

std::string letters(const StoredSequence& sequence) {
  std::string text;
  for (const uint8_t code : sequence.codes()) text += protein::letter_of(code);
  return text;
}

TEST(SequenceStore, GivesBackWhatTheFileHas) {
  const Folder folder;
  const auto path = folder.files.write("a.tsv", "sequence\tid\tx\ty\nACXU\tone\t\tb\nWW\ttwo\ta\tlast\n");
  const SequenceStore store = folder.open(path, {.others = {"y", "none", "x"}});
  ASSERT_EQ(store.size(), 2u);
  EXPECT_EQ(store.residues(), 6u);
  EXPECT_EQ(letters(store[0]), "ACXU");
  EXPECT_EQ(store[0].known(), 2u);
  EXPECT_EQ(store[0].name(), "one");
  EXPECT_EQ(store[0].other(0), "b");
  EXPECT_EQ(store[0].other(1), std::nullopt);
  EXPECT_EQ(store[0].other(2), "");
  EXPECT_EQ(store[1].other(0), "last");
  EXPECT_EQ(store[1].other(2), "a");
  EXPECT_EQ(store[1].other(3), std::nullopt);
}

TEST(SequenceStore, IsMadeOnceForAContentAndItsColumns) {
  const Folder folder;
  const auto path = folder.files.write("a.fasta", ">a\nACD\n>b\nA1\n");
  const auto content = folder.open(path).content();
  EXPECT_EQ(folder.open(path).content(), content);
  EXPECT_EQ(folder.stores(), 1u);
  EXPECT_EQ(folder.open(path).report().dropped(), 1u) << "what was dropped is told each time";
  std::ofstream(path, std::ios::app) << ">c\nWW\n";
  EXPECT_NE(folder.open(path).content(), content);
  EXPECT_EQ(folder.stores(), 2u);
}

TEST(SequenceStore, DamageIsNoticed) {
  const Folder folder;
  const auto path = folder.files.write("a.fasta", ">a\nACDEFGHIKLMNPQRSTVWY\n>b\nWW\n");
  const auto content = folder.open(path).content();
  for (const auto& entry : fs::directory_iterator(folder.cache)) {
    if (entry.path().extension() != ".sequences") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('!');
  }
  const SequenceStore damaged = folder.open(path);
  EXPECT_THROW(damaged[0], files::DataError);
  EXPECT_EQ(damaged.content(), content);
}

}  // namespace
}  // namespace pipeline::sequences
