// What is a protein chain, and what is not.
#include <gtest/gtest.h>

#include "tests/data/structures/pdb_text.hpp"

namespace pipeline::structures {
namespace {

const Style kHet = {.record = "HETATM"};

TEST(Chains, WaterLigandsSugarsAndNucleicAcidsAreLeftOut) {
  std::string text = peptide({"ALA", "GLY"}) + "TER\n" +
                     residue("DA", {.chain = 'B'}, {.atoms = {"P", "C1'", "N9"}}) +
                     residue("U", {.chain = 'C'}, {.atoms = {"P", "C1'"}}) + "TER\n" +
                     residue("HEM", {.number = 200}, {.record = "HETATM", .atoms = {"FE", "NA"}}) +
                     residue("NAG", {.number = 201}, {.record = "HETATM", .atoms = {"C1", "C2"}}) +
                     residue("CA", {.number = 202}, {.record = "HETATM", .atoms = {"CA"}});
  for (int i = 300; i < 320; ++i) text += residue("HOH", {.number = i}, {.record = "HETATM", .atoms = {"O"}});
  EXPECT_EQ(summary_of(text), "A:AG");
}

TEST(Chains, FreeAminoAcidsAreLigands) {
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}) + "TER\n" + residue("GLU", {.number = 3, .x = 50}, kHet)),
            "A:AG");
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}) + residue("GLU", {.number = 300}, kHet)),
            "A:AG");  // without a TER
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}) + "TER\n" + residue("GLU", {.number = 2, .x = 50}, kHet)),
            "A:AG");  // at a number of the chain's
  EXPECT_EQ(summary_of(residue("MSE", {.number = 1}, kHet) + peptide({"ALA", "GLY"}, 'A', 2)),
            "A:MAG");  // bonded: the chain's start
  EXPECT_EQ(summary_of(peptide({"ALA"}) + residue("MSE", {.number = 5}, kHet) + peptide({"GLY"}, 'A', 9)),
            "A:AMG");  // between gaps
}

TEST(Chains, CapsAreNoResidues) {
  EXPECT_EQ(
      summary_of(residue("ACE", {.number = 1}, {.atoms = {"CH3", "C", "O"}}) +
                 peptide({"ALA", "GLY"}, 'A', 2) + residue("NME", {.number = 4}, {.atoms = {"N", "C"}})),
      "A:AG");
}

TEST(Chains, PiecesOfOneNameAreOneChain) {
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}) + "TER\n" + peptide({"SER"}, 'B') + "TER\n" +
                       peptide({"TRP"}, 'A', 3)),
            "A:AGW B:S");
  // A fusion with numbers of its own in the middle.
  EXPECT_EQ(
      summary_of(peptide({"ALA", "GLY"}) + peptide({"SER", "SER"}, 'A', 1001) + peptide({"TRP"}, 'A', 3)),
      "A:AGSSW");
}

TEST(Chains, CopiesUnderOneNameAreChainsOfTheirOwn) {
  const std::string one = peptide({"ALA", "GLY"});
  EXPECT_EQ(summary_of(one + "TER\n" + one + "TER\n" + one), "A:AG A-2:AG A-3:AG");
  EXPECT_EQ(summary_of(one + one), "A:AG A-2:AG");
}

TEST(Chains, WithoutANameTheyEndAtTerAndWhereNumbersGoBack) {
  const std::string one = peptide({"ALA", "GLY"}, ' ', 5), other = peptide({"SER", "TRP"}, ' ', 2);
  EXPECT_EQ(summary_of(one), ":AG");
  EXPECT_EQ(summary_of(one + "TER\n" + peptide({"SER"}, ' ', 17)), ":AG 2:S");
  EXPECT_EQ(summary_of(one + other), ":AG 2:SW");
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}, ' ', 5) + residue("SER", {.chain = ' ', .number = 1, .x = 7})),
            ":AGS");  // bonded
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}, ' ') + "TER\n" + residue("SER", {.chain = ' ', .number = 3})),
            ":AGS");
}

TEST(Chains, WithoutANameTheyAreNamedAfterTheirSegments) {
  const std::string a = peptide({"ALA", "GLY"}, ' ', 1, {.segment = "PROA"}),
                    b = peptide({"SER", "TRP"}, ' ', 3, {.segment = "PROB"});
  EXPECT_EQ(summary_of(a + b), "PROA:AG PROB:SW");
  EXPECT_EQ(summary_of(a), ":AG");  // one for all lines: old files have their code there
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}, 'A', 1, {.segment = "PROA"}) +
                       peptide({"SER"}, 'A', 3, {.segment = "PROB"})),
            "A:AGS");
}

TEST(Chains, ThatAreNotThereAreAReasonWithAnExample) {
  const std::string water = residue("HOH", {}, {.record = "HETATM", .atoms = {"O"}});
  EXPECT_EQ(summary_of(water),
            "has no protein chain: none of its 1 atoms is an amino acid's, as in line 1, \"" +
                water.substr(0, 54) + "\"");
  const std::string base = residue("DA", {}, {.atoms = {"P", "C1'"}});
  EXPECT_EQ(summary_of("REMARK\n" + water + base),
            "has no protein chain: none of its 3 atoms is an amino acid's, as in line 3, \"" +
                base.substr(0, 54) + "\"");
  EXPECT_EQ(summary_of(residue("GLU", {}, kHet)),
            "has no protein chain: its amino acids are ligands (HETATM, and not bonded to others)");
}

}  // namespace
}  // namespace pipeline::structures
