#include "plugins/data/proteins/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/proteins/splits.hpp"
#include "plugins/data/residues/residue.hpp"
#include "tests/data/proteins/made_up_chains.hpp"
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

// Tests which residues of a structure's chains are copies of each other.

// Chains whose residues' numbers say which of them are copies: each residue has to lead to the first one of
// its number, and no other.
void expect_copies_by_number(const std::vector<std::vector<residues::Residue>>& chains) {
  const std::vector<int64_t> copy_of = copies_of(chains);
  std::map<int32_t, int64_t> first;
  int64_t row = 0;
  for (const auto& chain : chains)
    for (const residues::Residue& residue : chain) {
      const int64_t expected = first.try_emplace(residue.number, row).first->second;
      EXPECT_EQ(copy_of[static_cast<size_t>(row)], expected)
          << "residue " << residue.number << " at row " << row;
      ++row;
    }
}

TEST(Copies, OfWhichOtherEndsWereSeen) {
  const auto whole = made_up_chain(60, 1);
  expect_copies_by_number({whole, part_of(whole, 1, 59)});
  expect_copies_by_number({part_of(whole, 1, 59), whole});
  expect_copies_by_number({part_of(whole, 5, 40), part_of(whole, 0, 50), part_of(whole, 12, 48)});
}

TEST(Copies, OfWhichOtherLoopsWereSeen) {
  const auto whole = made_up_chain(120, 2);
  expect_copies_by_number({whole, without(whole, 40, 35)});
  expect_copies_by_number({without(whole, 20, 10), without(whole, 70, 30)});
  expect_copies_by_number({without(whole, 20, 10), without(whole, 70, 30), whole, without(whole, 50, 1)});
  expect_copies_by_number({whole, without(whole, 40, 77)});  // three residues behind a long loop
}

TEST(Copies, AMutantIsPairedWithItsOriginal) {
  auto mutant = made_up_chain(80, 3);
  const auto original = mutant;
  for (const size_t place : {0, 17, 18, 50, 79})
    mutant[place].amino_acid =
        static_cast<uint8_t>((mutant[place].amino_acid + 7) % residues::kAminoAcidCount);
  expect_copies_by_number({original, mutant});
}

TEST(Copies, ARepeatGoesWithTheNumbers) {
  auto whole = made_up_chain(40, 4);
  const auto unit = part_of(whole, 10, 12);
  auto twice = whole;
  for (size_t i = 0; i < unit.size(); ++i)
    twice.insert(twice.begin() + 22 + static_cast<ptrdiff_t>(i), unit[i]);
  renumber(twice);
  expect_copies_by_number({twice, without(twice, 22, 12)});
  expect_copies_by_number({twice, without(twice, 10, 12)});
}

TEST(Copies, RelativesAndStrangersAreNone) {
  const auto a = made_up_chain(100, 5);
  auto relative = a;
  for (size_t i = 0; i < relative.size(); i += 5)
    relative[i].amino_acid = static_cast<uint8_t>((relative[i].amino_acid + 3) % residues::kAminoAcidCount);
  const auto copy_of = copies_of({a, relative, made_up_chain(90, 6)});
  for (size_t i = 0; i < copy_of.size(); ++i) EXPECT_EQ(copy_of[i], static_cast<int64_t>(i));
}

TEST(Copies, ShortChainsAreCopiesOnlyIfTheyAreEqual) {
  const auto whole = made_up_chain(50, 7);
  const auto peptide = part_of(whole, 10, 7);
  const auto copy_of = copies_of({whole, peptide, peptide});
  EXPECT_EQ(copy_of[50], 50);
  EXPECT_EQ(copy_of[57], 50);
}

TEST(Copies, AKnownResidueStandsForThoseThatAreUnknown) {
  auto first = made_up_chain(40, 8);
  const auto second = first;
  first[20].amino_acid = residues::kUnknown;
  const auto copy_of = copies_of({first, second});
  EXPECT_EQ(copy_of[20], 60);
  EXPECT_EQ(copy_of[60], 60);
  EXPECT_EQ(copy_of[61], 21);
}

TEST(Copies, NothingHasNone) {
  EXPECT_THAT(copies_of({}), ElementsAre());
  EXPECT_THAT(copies_of({{}, made_up_chain(1, 1), {}}), ElementsAre(0));
}

TEST(Copies, OfSixtyChainsAreFoundAndStrangersHaveNone) {
  const auto whole = made_up_chain(400, 9);
  std::vector<std::vector<residues::Residue>> ragged, strangers;
  for (size_t i = 0; i < 60; ++i) {
    ragged.push_back(without(part_of(whole, i % 5, 380 + i % 7), 30 + 5 * i, 3 + i % 4));
    strangers.push_back(made_up_chain(400, 100 + i));
  }
  expect_copies_by_number(ragged);
  const std::vector<int64_t> copy_of = copies_of(strangers);
  for (size_t i = 0; i < copy_of.size(); ++i) ASSERT_EQ(copy_of[i], static_cast<int64_t>(i));
}

TEST(ResiduePairing, VeryLongChainsArePairedByNumber) {
  const auto whole = made_up_chain(12000, 10);
  const auto part = without(whole, 5000, 100);
  const ResiduePairs pairs = pair_residues(whole, part);
  ASSERT_EQ(pairs.size(), 11900u);
  for (const auto& [a, b] : pairs) ASSERT_EQ(whole[a].number, part[b].number);
}

TEST(ResiduePairing, NothingIsPairedWithNothing) {
  EXPECT_TRUE(pair_residues({}, made_up_chain(3, 1)).empty());
  EXPECT_TRUE(pair_residues(made_up_chain(3, 1), {}).empty());
}

}  // namespace
}  // namespace pipeline::proteins
