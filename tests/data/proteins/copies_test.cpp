// Tests which residues of a structure's chains are copies of each other.
#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/residue.hpp"

#include <gmock/gmock.h>

#include <map>

#include "tests/data/proteins/made_up_chains.hpp"

namespace pipeline::proteins {
namespace {

using testing::ElementsAre;

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
