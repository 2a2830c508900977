// Labels of backbones against DSSP, and against ideal shapes.
#include <cmath>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <test_paths.hpp>

#include "plugins/data/structures/secondary_structure.hpp"

namespace pipeline::structures {
namespace {

std::string text_of(const std::vector<SecondaryStructure>& states) {
  std::string text;
  for (const SecondaryStructure state : states) text += letter_of(state);
  return text;
}

// fixtures/2xr6A-dssp.txt: chain A of 2XR6, a lectin with two helices and a sheet with bulges: number,
// residue, N, CA, C, and the state that mkdssp 4.2.2 gives it, in three letters. Of the 65 structures of the
// default set 99.3% of 10,332 residues agree; the rest are at the ends of helices, where O is not quite where
// the file has it.
TEST(SecondaryStructure, IsThatOfDssp) {
  std::ifstream file(PIPELINE_SOURCE_DIR "/tests/data/structures/fixtures/2xr6A-dssp.txt");
  std::vector<residues::Residue> chain;
  std::string theirs;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    residues::Residue& residue = chain.emplace_back();
    char letter = 0, state = 0;
    fields >> residue.number >> letter;
    for (residues::Vec3* at : {&residue.n, &residue.ca, &residue.c}) fields >> at->x >> at->y >> at->z;
    fields >> state;
    ASSERT_TRUE(fields) << line;
    residue.amino_acid = static_cast<uint8_t>(residues::kAminoAcids.find(letter));
    residue.flags = residues::Residue::kHasCa | residues::Residue::kHasFrame;
    residue.position = static_cast<int32_t>(chain.size()) - 1;
    theirs += state;
  }
  ASSERT_EQ(chain.size(), 130u);
  const std::string ours = text_of(secondary_structure_of(chain));
  size_t same = 0;
  for (size_t i = 0; i < ours.size(); ++i) same += ours[i] == theirs[i] ? 1 : 0;
  EXPECT_GE(same, 129u) << ours << "\n" << theirs;

  // Without atoms there is no state, and no bond.
  chain[50].flags = residues::Residue::kHasCa;
  EXPECT_EQ(secondary_structure_of(chain)[50], SecondaryStructure::kNotKnown);
  EXPECT_TRUE(secondary_structure_of({}).empty());

  // A chain's two ends of the sheet are near each other, and neighbours do not count.
  const auto near = contacts_of(chain, 6);
  EXPECT_GT(near.size(), chain.size());
  for (const auto& [i, j] : near) {
    EXPECT_GE(j, i + 6);
    EXPECT_NE(i, 50u);
    EXPECT_NE(j, 50u);
    EXPECT_LT(std::hypot(chain[i].ca.x - chain[j].ca.x, chain[i].ca.y - chain[j].ca.y,
                         chain[i].ca.z - chain[j].ca.z),
              8 + 2 * 1.6f)
        << "a CB is 1.5 Å from its CA";
  }
}

// N, CA and C of an ideal helix (Pauling 1951): 100 degrees and 1.5 Å a residue.
std::vector<residues::Residue> helix(size_t length) {
  std::vector<residues::Residue> chain(length);
  const auto at = [](size_t i, double radius, double degrees, double rise) {
    const double angle = (100 * static_cast<double>(i) + degrees) * M_PI / 180;
    return residues::Vec3{static_cast<float>(radius * std::cos(angle)),
                          static_cast<float>(radius * std::sin(angle)),
                          static_cast<float>(1.5 * static_cast<double>(i) + rise)};
  };
  for (size_t i = 0; i < length; ++i) {
    chain[i].amino_acid = 0;
    chain[i].flags = residues::Residue::kHasCa | residues::Residue::kHasFrame;
    chain[i].position = static_cast<int32_t>(i);
    chain[i].n = at(i, 1.55, -27, -0.9), chain[i].ca = at(i, 2.3, 0, 0), chain[i].c = at(i, 1.7, 27, 1.1);
  }
  return chain;
}

TEST(SecondaryStructure, AHelixIsOneButForItsEnds) {
  EXPECT_EQ(text_of(secondary_structure_of(helix(12))), "CHHHHHHHHHHC");
  EXPECT_EQ(text_of(secondary_structure_of(helix(4))), "CCCC") << "too short for a turn";
  // A gap in the chain is one in its bonds.
  auto broken = helix(24);
  for (size_t i = 12; i < 24; ++i) broken[i].n.z += 50, broken[i].ca.z += 50, broken[i].c.z += 50;
  EXPECT_EQ(text_of(secondary_structure_of(broken)), "CHHHHHHHHHHCCHHHHHHHHHHC");
  // Proline has no NH, and a bond needs one.
  auto with_proline = helix(12);
  for (residues::Residue& residue : with_proline)
    residue.amino_acid = static_cast<uint8_t>(residues::kAminoAcids.find('P'));
  EXPECT_EQ(text_of(secondary_structure_of(with_proline)), "CCCCCCCCCCCC");
}

}  // namespace
}  // namespace pipeline::structures
