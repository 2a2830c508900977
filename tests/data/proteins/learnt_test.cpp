// What weights were trained with: content keys, and sets of them.
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/residues/residue.hpp"

#include <gmock/gmock.h>

#include "tests/data/proteins/made_up_chains.hpp"

namespace pipeline::proteins {
namespace {

using ::testing::ElementsAre;

TEST(ContentKey, IsWhatAChainIsAndNotWhatItIsCalled) {
  const auto chain = made_up_chain(30, 1);
  auto renamed = chain, mutant = chain, moved = chain, shorter = chain;
  for (residues::Residue& residue : renamed) residue.number += 100, residue.insertion = 'B';
  mutant[7].amino_acid = static_cast<uint8_t>((mutant[7].amino_acid + 1) % residues::kAminoAcidCount);
  moved[7].ca.x += 0.001f;
  shorter.pop_back();
  EXPECT_EQ(content_key(renamed), content_key(chain));
  for (const auto& other : {mutant, moved, shorter}) EXPECT_NE(content_key(other), content_key(chain));
}

TEST(ContentKey, OfOneChainIsThatOfTheChain) {
  const std::vector<uint64_t> one{7}, two{7, 8}, swapped{8, 7};
  EXPECT_EQ(content_key(one), 7u);
  EXPECT_NE(content_key(two), content_key(one));
  EXPECT_NE(content_key(two), content_key(swapped));
}

TEST(ContentKey, IsTheSameInEveryVersion) {
  // Checkpoints hold content keys: with another hash they would not know what they have learnt from.
  std::vector<residues::Residue> chain(2);
  chain[0].amino_acid = 3;
  chain[1].amino_acid = 19;
  chain[1].ca = {1.5f, -2.25f, 8};
  EXPECT_EQ(content_key(chain), 0x59fa968c7635c344u);
}

TEST(ContentKey, OfASequenceIsThatOfAChainWithoutCoordinates) {
  std::vector<residues::Residue> chain(3);
  chain[0].amino_acid = 3;
  chain[1].amino_acid = 19;
  EXPECT_EQ(content_key(std::vector<uint8_t>{3, 19, residues::kUnknown}), content_key(chain));
}

TEST(Learnt, AddsUp) {
  const auto keys = [](std::vector<uint64_t> all) { return ContentKeys(all); };
  Learnt learnt{.training = keys({1, 5}), .validation = keys({9})};
  learnt.add({.training = keys({3, 5}), .validation = {}});
  EXPECT_THAT(learnt.training.keys(), ElementsAre(1, 3, 5));
  EXPECT_THAT(learnt.validation.keys(), ElementsAre(9));
  const std::vector<uint64_t> some{2, 3}, none{2, 4};
  EXPECT_TRUE(learnt.training.has_any(some));
  EXPECT_FALSE(learnt.training.has_any(none));
}

TEST(ContentKeys, OfMillionsKeepsTheSmallest) {
  ContentKeys all;
  std::vector<uint64_t> some;
  for (uint64_t i = 0; i < 2 * ContentKeys::kMost; ++i) {
    some.push_back(7 * (2 * ContentKeys::kMost - 1 - i));
    if (some.size() == 1000) all.add(std::exchange(some, {}));
  }
  all.add(some);
  EXPECT_EQ(all.keys().size(), ContentKeys::kMost);
  EXPECT_EQ(all.bound(), 7 * (ContentKeys::kMost - 1));
  const std::vector<uint64_t> kept{7 * 5}, gone{7 * ContentKeys::kMost, UINT64_MAX};
  EXPECT_TRUE(all.has_any(kept));
  EXPECT_FALSE(all.has_any(gone)) << "it was there, and nobody knows: it is above the bound";
  // What is added to a set with another bound is known up to the smaller one.
  ContentKeys few(std::vector<uint64_t>{3, UINT64_MAX});
  few.add(all);
  EXPECT_EQ(few.bound(), 7 * (ContentKeys::kMost - 2)) << "3 is one more, so the largest went";
  EXPECT_FALSE(few.has_any(gone));
}

}  // namespace
}  // namespace pipeline::proteins
