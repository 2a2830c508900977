// Tests which residues come out of a chain, and with what.
#include <gtest/gtest.h>

#include "plugins/data/structures/structure.hpp"
#include "tests/data/structures/pdb_text.hpp"

namespace pipeline::structures {
namespace {

TEST(Residues, HaveTheirAminoAcidNumberAndBackbone) {
  const auto structure = parse(peptide({"ALA", "TRP", "GLY"}, 'B', 10) + "TER\nEND\n");
  ASSERT_EQ(structure.chains.size(), 1u);
  EXPECT_EQ(structure.chains[0].name, "B");
  EXPECT_EQ(sequence_of(structure.chains[0]), "AWG");
  const residues::Residue& first = structure.chains[0].residues[0];
  EXPECT_EQ(first.number, 10);
  EXPECT_EQ(first.insertion, ' ');
  EXPECT_TRUE(first.has_ca() && first.has_frame());
  EXPECT_FLOAT_EQ(first.n.x, 38);
  EXPECT_FLOAT_EQ(first.ca.y, 0.8f);
  EXPECT_FLOAT_EQ(first.c.x, 40.45f);
}

TEST(Residues, OfSeveralModelsTheFirstCounts) {
  EXPECT_EQ(summary_of("MODEL        1\n" + peptide({"ALA", "GLY"}) + "ENDMDL\nMODEL        2\n" +
                       peptide({"TRP"}, 'B') + "ENDMDL\nEND\n"),
            "A:AG");
  EXPECT_EQ(
      summary_of("MODEL        1\n" + peptide({"ALA"}) + "MODEL        2\n" + peptide({"TRP"}) + "ENDMDL\n"),
      "A:A");
}

TEST(Residues, ModifiedOnesAreTheirParents) {
  EXPECT_EQ(summary_of(peptide({"ALA"}) + residue("MSE", {.number = 2}, {.record = "HETATM"}) +
                       residue("SEP", {.number = 3}, {.record = "HETATM"}) + residue("SEC", {.number = 4}) +
                       residue("PYL", {.number = 5}) + residue("UNK", {.number = 6})),
            "A:AMSXXX");
  EXPECT_EQ(summary_of("MODRES 2ABC XYZ A    2  TYR  SOMETHING NEW\n" + peptide({"ALA"}) +
                       residue("XYZ", {.number = 2}, {.record = "HETATM"}) + peptide({"GLY"}, 'A', 3)),
            "A:AYG");
}

TEST(Residues, NamesOfForceFieldsAreKnown) {
  EXPECT_EQ(
      summary_of(peptide({"HSD", "HSE", "HSP", "HID", "HIE", "HIP", "CYX", "CYM", "ASH", "GLH", "LYN"})),
      "A:HHHHHHCCDEK");
  EXPECT_EQ(residue_name("NALA", {}).amino_acid, residues::kAminoAcids.find('A'));
  EXPECT_EQ(residue_name("CHIE", {}).amino_acid, residues::kAminoAcids.find('H'));
  EXPECT_EQ(residue_name("HOH", {}).kind, ResidueName::kNotProtein);
  EXPECT_EQ(residue_name("DA", {}).kind, ResidueName::kNotProtein);
  EXPECT_EQ(residue_name("???", {}).kind, ResidueName::kOther);
  for (uint8_t i = 0; i < residues::kAminoAcidCount; ++i) {
    EXPECT_EQ(residue_name(std::string(three_letters_of(i)), {}).amino_acid, i);
    EXPECT_EQ(residue_name(std::string(three_letters_of(i)), {}).kind, ResidueName::kStandard);
  }
}

TEST(Residues, UnknownOnesInTheChainAreKeptAndOthersAreNot) {
  const Style het = {.record = "HETATM"};
  EXPECT_EQ(summary_of(peptide({"ALA"}) + residue("ZZZ", {.number = 2}, het) + peptide({"GLY"}, 'A', 3)),
            "A:AXG");
  EXPECT_EQ(summary_of(peptide({"ALA", "GLY"}) + residue("ZZZ", {.number = 90}, het)), "A:AG");
}

TEST(Residues, MissingAtomsShowInTheFlags) {
  const auto structure =
      parse(residue("ALA", {.number = 1}, {.atoms = {"N", "CA", "O"}}) +
            residue("GLY", {.number = 2}, {.atoms = {"CA"}}) +
            residue("SER", {.number = 3}, {.atoms = {"CB", "OG"}}) + residue("TRP", {.number = 4}));
  const auto& residues = structure.chains.at(0).residues;
  ASSERT_EQ(residues.size(), 4u);
  EXPECT_TRUE(residues[0].has_ca() && !residues[0].has_frame());
  EXPECT_EQ(residues[0].n.x, 0);  // zero where there is no frame
  EXPECT_TRUE(residues[1].has_ca() && !residues[1].has_frame());
  EXPECT_TRUE(!residues[2].has_ca() && !residues[2].has_frame());
  EXPECT_TRUE(residues[3].has_frame());
  EXPECT_EQ(positions_of(structure.chains[0]), (std::vector{0, 1, 2, 3}));
}

TEST(Residues, CoordinatesThatCannotBeCountAsMissing) {
  std::string text = peptide({"ALA", "GLY", "SER", "TRP"});
  const auto put = [&](size_t line, const std::string& field) {
    text.replace(line * (text.find('\n') + 1) + 30, 8, field);
  };
  put(1, "********");   // CA of ALA
  put(4, "     nan");   // N of GLY
  put(9, "     1e9");   // CA of SER
  put(12, "        ");  // N of TRP
  const auto structure = parse(text);
  const auto& residues = structure.chains.at(0).residues;
  ASSERT_EQ(residues.size(), 4u);
  EXPECT_FALSE(residues[0].has_ca() || residues[2].has_ca());
  EXPECT_TRUE(residues[1].has_ca() && residues[3].has_ca());
  for (const auto& r : residues) EXPECT_FALSE(r.has_frame());
}

TEST(Residues, AtomsThatMakeNoPlaneMakeNoFrame) {
  std::string same;
  for (const auto* atom : {"N", "CA", "C"}) same += atom_line(atom, "ALA", {}, 1, 1, {});
  EXPECT_FALSE(parse(same).chains.at(0).residues.at(0).has_frame());
  std::string line;
  for (const auto* atom : {"N", "CA", "C"}) line += atom_line(atom, "ALA", {}, line.size() / 50.0, 1, {});
  EXPECT_FALSE(parse(line).chains.at(0).residues.at(0).has_frame());
  std::string torn = atom_line("N", "ALA", {}, 0, 0, {}) + atom_line("CA", "ALA", {}, 1.2, 0.8, {}) +
                     atom_line("C", "ALA", {}, 80, 0, {});
  EXPECT_FALSE(parse(torn).chains.at(0).residues.at(0).has_frame());
}

// Two conformers, the atoms of each at their own y.
std::string two(double a, double b, const std::vector<std::string>& atoms_b = {"N", "CA", "C", "O"}) {
  return residue("SER", {.y = 10}, {.altloc = 'A', .occupancy = a}) +
         residue("SER", {.y = 20}, {.altloc = 'B', .occupancy = b, .atoms = atoms_b});
}

TEST(Residues, OfAlternateLocationsTheMostOccupiedIsTaken) {
  const auto frame_y = [](const std::string& text) {
    const auto structure = parse(text);
    EXPECT_EQ(structure.chains.at(0).residues.size(), 1u);
    const residues::Residue& r = structure.chains[0].residues[0];
    EXPECT_TRUE(r.has_frame());
    EXPECT_FLOAT_EQ(r.ca.y, r.n.y + 0.8f);  // all of one conformer
    EXPECT_FLOAT_EQ(r.c.y, r.n.y);
    return r.n.y;
  };
  EXPECT_EQ(frame_y(two(0.3, 0.7)), 20);
  EXPECT_EQ(frame_y(two(0.7, 0.3)), 10);
  EXPECT_EQ(frame_y(two(0.5, 0.5)), 10);
  EXPECT_EQ(frame_y(two(0.4, 0.6, {"CA"})), 10);  // the sum over N, CA and C
  EXPECT_EQ(frame_y(residue("SER", {.y = 10}, {.occupancy = 0.2}) +
                    residue("SER", {.y = 20}, {.altloc = 'B', .occupancy = 0.8})),
            20);
}

TEST(Residues, AtomsThatConformersShareBelongToEach) {
  const auto structure =
      parse(residue("SER", {}, {.atoms = {"N", "C"}}) +
            residue("SER", {.y = 0.1}, {.altloc = 'A', .occupancy = 0.4, .atoms = {"CA"}}) +
            residue("SER", {.y = 0.2}, {.altloc = 'B', .occupancy = 0.6, .atoms = {"CA"}}));
  const residues::Residue& r = structure.chains.at(0).residues.at(0);
  EXPECT_TRUE(r.has_frame());
  EXPECT_FLOAT_EQ(r.ca.y, 1.0f);
}

TEST(Residues, OfTwoNamesAtOnePlaceTheMoreOccupiedIsTaken) {
  const auto text = [](double ser, double thr) {
    return peptide({"ALA"}) + residue("SER", {.number = 2}, {.altloc = 'A', .occupancy = ser}) +
           residue("THR", {.number = 2}, {.altloc = 'B', .occupancy = thr}) + peptide({"GLY"}, 'A', 3);
  };
  EXPECT_EQ(summary_of(text(0.4, 0.6)), "A:ATG");
  EXPECT_EQ(summary_of(text(0.6, 0.4)), "A:ASG");
  EXPECT_EQ(summary_of(text(0.5, 0.5)), "A:ASG");
  EXPECT_EQ(positions_of(parse(text(0.4, 0.6)).chains[0]), (std::vector{0, 1, 2}));
}

TEST(Residues, AlternateLocationsMayStandAtTheEnd) {
  const auto text = [](const std::string& name, double first, double second) {
    return peptide({"ALA"}) + residue("SER", {.number = 2}, {.altloc = 'A', .occupancy = first}) +
           peptide({"GLY", "TRP"}, 'A', 3) +
           residue(name, {.number = 2, .y = 0.5}, {.altloc = 'B', .occupancy = second});
  };
  EXPECT_EQ(summary_of(text("THR", 0.4, 0.6)), "A:ATGW");
  EXPECT_EQ(summary_of(text("THR", 0.6, 0.4)), "A:ASGW");
  EXPECT_EQ(summary_of(text("SER", 0.4, 0.6)), "A:ASGW");
  EXPECT_FLOAT_EQ(parse(text("SER", 0.4, 0.6)).chains[0].residues[1].n.y, 0.5f);
  EXPECT_EQ(positions_of(parse(text("THR", 0.4, 0.6)).chains[0]), (std::vector{0, 1, 2, 3}));
}

TEST(Residues, InsertionCodesAreKeptAndCountOneEach) {
  const auto structure = parse(
      residue("ALA", {.number = 52, .x = 0}) + residue("GLY", {.number = 52, .insertion = 'A', .x = 1}) +
      residue("SER", {.number = 52, .insertion = 'B', .x = 9}) + residue("TRP", {.number = 53, .x = 10}));
  const auto& chain = structure.chains.at(0);
  EXPECT_EQ(sequence_of(chain), "AGSW");
  EXPECT_EQ(chain.residues[1].insertion, 'A');
  EXPECT_EQ(chain.residues[2].number, 52);
  EXPECT_EQ(positions_of(chain), (std::vector{0, 1, 2, 3}));
}

TEST(Residues, GapsShowInThePositions) {
  const auto positions = [](const std::string& text) { return positions_of(parse(text).chains.at(0)); };
  EXPECT_EQ(positions(peptide({"ALA", "GLY"}) + peptide({"SER"}, 'A', 8)), (std::vector{0, 1, 7}));
  // Numbers that jump although the residues are bonded, and that go back or far although they are not.
  EXPECT_EQ(positions(residue("ALA", {.number = 1, .x = 0}) + residue("GLY", {.number = 90, .x = 1})),
            (std::vector{0, 1}));
  EXPECT_EQ(positions(residue("ALA", {.number = 50, .x = 0}) + residue("GLY", {.number = 10, .x = 9})),
            (std::vector{0, 2}));
  EXPECT_EQ(positions(residue("ALA", {.number = 1, .x = 0}) + residue("GLY", {.number = 5000, .x = 9})),
            (std::vector{0, 2}));
  EXPECT_EQ(positions(residue("ALA", {.number = -5, .x = 0}) + residue("GLY", {.number = 1, .x = 9})),
            (std::vector{0, 6}));
}

// What is a protein chain, and what is not.

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
