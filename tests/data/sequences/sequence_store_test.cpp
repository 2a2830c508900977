#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/sequences/sequence_store.hpp"
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
  for (const uint8_t code : sequence.codes()) text += residues::letter_of(code);
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

TEST(SequenceStore, EachOptionGivesAnother) {
  const Folder folder;
  const std::string table = "id,sequence,note,residues\na,ACD,x,ACD\n",
                    path = folder.files.write("a.csv", table);
  const auto stores_with = [&](const StoreOptions& options, const std::string& file) {
    const auto source = sources::find_and_hash(file, folder.cache, {}, sources::Content::kSequences);
    SequenceStore::open(source, options, {});
    return folder.stores();
  };
  const StoreOptions plain{.cache_folder = folder.cache, .columns = {}, .read = {}};
  std::vector<StoreOptions> others(5, plain);
  others[0].columns.sequence = "residues";
  others[1].columns.id = "note";
  others[2].columns.others = {"note"};
  others[3].read.max_record_bytes = 1000;
  others[4].read.quotes = records::Quotes::kText;
  EXPECT_EQ(stores_with(plain, path), 1u);
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(stores_with(others[i], path), 2 + i);
  EXPECT_EQ(stores_with(plain, folder.files.write("same.csv", table)), 7u)
      << "of another name, so of another stem";
  EXPECT_EQ(stores_with(plain, path), 7u);
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
