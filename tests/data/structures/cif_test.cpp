#include <random>

#include <gtest/gtest.h>

#include "tests/data/structures/pdb_text.hpp"

namespace pipeline::structures {
namespace {

const std::string kHead =
    "# made by "
    "hand\ndata_TEST\nloop_\n_atom_site.group_PDB\n_atom_site.id\n_atom_site.label_atom_id\n_atom_site.label_"
    "alt_id\n"
    "_atom_site.label_comp_id\n_atom_site.label_asym_id\n_atom_site.label_seq_id\n_atom_site.pdbx_PDB_ins_"
    "code\n_atom_site.Cartn_x\n"
    "_atom_site.Cartn_y\n_atom_site.Cartn_z\n_atom_site.occupancy\n_atom_site.auth_seq_id\n_atom_site.auth_"
    "asym_id\n"
    "_atom_site.pdbx_PDB_model_num\n";

struct CifPlace {
  std::string label_asym = "A", label_seq = "1", auth_asym = "A", auth_seq = "1", insertion = "?",
              altloc = ".", occupancy = "1.0";
  std::string group = "ATOM", model = "1";
  double x = 0;  // in steps of 3.8 Å
};

std::string residue_rows(const std::string& name, const CifPlace& p) {
  std::string text;
  for (const auto& [atom, dx, dy] :
       {std::tuple{"N", 0.0, 0.0}, {"CA", 1.2, 0.8}, {"C", 2.45, 0.0}, {"\"O5'\"", 2.5, -1.2}}) {
    text += p.group + " 1 " + atom + " " + p.altloc + " " + name + " " + p.label_asym + " " + p.label_seq +
            " " + p.insertion + " " + std::to_string(p.x * 3.8 + dx) + " " + std::to_string(dy) + " 0.0 " +
            p.occupancy + " " + p.auth_seq + " " + p.auth_asym + " " + p.model + "\n";
  }
  return text;
}

const std::string kTwo =
    residue_rows("ALA", {}) + residue_rows("GLY", {.label_seq = "2", .auth_seq = "2", .x = 1});

TEST(Cif, HasTheAuthorsNamesAndTheLabelsPositions) {
  const auto structure =
      parse(kHead +
            residue_rows("ALA", {.label_asym = "C", .label_seq = "3", .auth_asym = "X", .auth_seq = "103"}) +
            residue_rows("GLY", {.label_asym = "C",
                                 .label_seq = "8",
                                 .auth_asym = "X",
                                 .auth_seq = "104",
                                 .insertion = "B",
                                 .x = 5}));
  ASSERT_EQ(structure.chains.size(), 1u);
  const auto& chain = structure.chains[0];
  EXPECT_EQ(chain.name, "X");
  EXPECT_EQ(sequence_of(chain), "AG");
  EXPECT_EQ(chain.residues[0].number, 103);
  EXPECT_EQ(chain.residues[1].insertion, 'B');
  EXPECT_EQ(positions_of(chain), (std::vector{0, 5}));
  EXPECT_TRUE(chain.residues[0].has_frame());
  EXPECT_FLOAT_EQ(chain.residues[0].ca.x, 1.2f);
}

TEST(Cif, IsKnownByItsContent) {
  EXPECT_EQ(summary_of(kHead + kTwo), "A:AG");
  EXPECT_EQ(summary_of("\xef\xbb\xbf\n\n#\n" + kHead + kTwo), "A:AG");
  const tests::FilesFolder folder;
  EXPECT_EQ(read_structure(folder.write("x.pdb", kHead + kTwo), {}).chains.at(0).residues.size(), 2u);
}

TEST(Cif, FirstModelWaterLigandsAndFreeAminoAcidsAreAsInPdbFiles) {
  EXPECT_EQ(
      summary_of(
          kHead + kTwo +
          residue_rows("TRP",
                       {.label_asym = "B", .label_seq = ".", .auth_seq = "90", .group = "HETATM", .x = 50}) +
          residue_rows("HOH", {.label_asym = "C", .label_seq = ".", .auth_seq = "91", .group = "HETATM"}) +
          residue_rows("DG", {.label_asym = "D", .auth_asym = "D"}) +
          residue_rows("SER", {.label_asym = "A", .model = "2"})),
      "A:AG");
}

TEST(Cif, ModifiedResiduesOfTheSequenceAreItsResidues) {
  const std::string mse =
      residue_rows("MSE", {.label_seq = "9", .auth_seq = "9", .group = "HETATM", .x = 50});
  EXPECT_EQ(summary_of(kHead + kTwo + mse), "A:AGM");
  EXPECT_EQ(summary_of(kHead + kTwo +
                       residue_rows("QQQ", {.label_seq = "3", .auth_seq = "3", .group = "HETATM", .x = 2}) +
                       "loop_\n_chem_comp.id\n_chem_comp.mon_nstd_parent_comp_id\nALA ?\nQQQ TYR\n"),
            "A:AGY");
}

TEST(Cif, AlternateLocationsAndNames) {
  const auto at = [](const std::string& name, const std::string& altloc, const std::string& occupancy) {
    return residue_rows(
        name, {.label_seq = "3", .auth_seq = "3", .altloc = altloc, .occupancy = occupancy, .x = 2});
  };
  EXPECT_EQ(summary_of(kHead + kTwo + at("SER", "A", "0.4") + at("THR", "B", "0.6")), "A:AGT");
  EXPECT_EQ(summary_of(kHead + kTwo + at("SER", "A", "0.6") + at("THR", "B", "0.4")), "A:AGS");
  EXPECT_EQ(summary_of(kHead + kTwo + at("SER", "A", "0.6") + at("SER", "B", "0.4")), "A:AGS");
  const std::string more = residue_rows("TRP", {.label_seq = "4", .auth_seq = "4", .x = 3});
  for (const auto* name : {"THR", "SER"}) {  // the second one behind all others
    const auto structure = parse(kHead + kTwo + at("SER", "A", "0.4") + more + at(name, "B", "0.6"));
    ASSERT_EQ(structure.chains.size(), 1u);
    EXPECT_EQ(sequence_of(structure.chains[0]), *name == 'T' ? "AGTW" : "AGSW");
    EXPECT_EQ(positions_of(structure.chains[0]), (std::vector{0, 1, 2, 3}));
  }
}

// Columns whose rows say nothing for themselves.
TEST(Cif, WhatARowDoesNotSayInOneColumnIsTakenFromTheOther) {
  const auto structure =
      parse(kHead + residue_rows("ALA", {.auth_asym = "?", .auth_seq = "?"}) +
            residue_rows("ALA", {.label_seq = "2", .auth_asym = ".", .auth_seq = ".", .x = 1}) +
            residue_rows("GLY", {.label_seq = "3", .auth_asym = "A", .auth_seq = "13", .x = 2}));
  ASSERT_EQ(structure.chains.size(), 1u);
  EXPECT_EQ(structure.chains[0].name, "A");
  EXPECT_EQ(sequence_of(structure.chains[0]), "AAG");
  EXPECT_EQ(numbers_of(structure.chains[0]), (std::vector{1, 2, 13}));
  EXPECT_EQ(structure.remark, "");
}

TEST(Cif, ResiduesWithoutANumberCountOn) {
  std::string text = kHead + residue_rows("TRP", {.label_seq = "7", .auth_seq = "7", .x = 0});
  for (int i = 1; i < 6; ++i)
    text += residue_rows(i < 4 ? "ALA" : "GLY", {.label_seq = ".", .auth_seq = "?", .x = 1.0 * i});
  const auto structure = parse(text);
  ASSERT_EQ(structure.chains.size(), 1u);
  EXPECT_EQ(sequence_of(structure.chains[0]), "WAAAGG");
  EXPECT_EQ(numbers_of(structure.chains[0]), (std::vector{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(structure.remark,
            "5 residues have neither auth_seq_id nor label_seq_id: counted on from the one before");
}

TEST(Cif, AlternateLocationsOfAResidueWithoutANumberAreOneResidue) {
  const auto at = [](double x, const std::string& altloc) {
    return residue_rows("SER", {.label_seq = ".", .auth_seq = "?", .altloc = altloc, .x = x});
  };
  EXPECT_EQ(summary_of(kHead + at(1, ".") + at(2, "A") + at(2, "B") + at(3, ".") + at(4, ".")), "A:SSSS");
}

TEST(Cif, LowerCaseIsRead) {
  std::string text = kTwo;
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  EXPECT_EQ(summary_of(kHead + text), "a:AG");
}

TEST(Cif, FurtherDataBlocksAreSaid) {
  std::string other = kHead + kTwo;
  other.replace(other.find("data_TEST"), 9, "data_MORE");
  const auto structure = parse(kHead + kTwo + other + "data_LAST\n_cell.length_a 10\n");
  EXPECT_EQ(structure.chains.size(), 1u);
  EXPECT_EQ(structure.remark,
            "only its first data block is read, TEST: put the others into files of their own: MORE");
}

TEST(Cif, AnEndThatIsMissingIsSaidWhereLoopsHaveOne) {
  const auto remark = [](const std::string& text) { return parse(text).remark; };
  const std::string loop = "loop_\n_entity.id\n1\n2\n", atoms = kHead.substr(kHead.find("loop_")) + kTwo;
  const std::string cut =
      "may be cut off: no line # closes the loop of its atoms, as one does the loops before";
  EXPECT_EQ(remark("data_T\n#\n" + loop + "#\n" + atoms), cut);
  EXPECT_EQ(remark("data_T\r\n# \r\n" + loop + "# \r\n" + atoms), cut);
  for (const auto& whole :
       {"data_T\n#\n" + loop + "# \n" + atoms + "# \n", "data_T\n#\n" + atoms, "data_T\n" + loop + atoms,
        "data_T\n#\n" + loop + "#\n" + atoms + "#\n_cell.length_a 10\n",
        "data_T\n" + loop + "# made by hand\n" + atoms,
        "data_T\n#\n" + loop + "#\n" + atoms + "loop_\n_x.id\n1\n",
        "data_S\n" + loop + "#\ndata_T\n#\n" + atoms}) {
    EXPECT_EQ(remark(whole), "") << whole;
  }
}

TEST(Cif, WithoutAminoAcidsTheFirstAtomIsShown) {
  EXPECT_EQ(summary_of(kHead + residue_rows("HOH", {}) + residue_rows("DG", {.auth_seq = "4"})),
            "has no protein chain: none of its 8 atoms is an amino acid's, as in \"ATOM N DG A 4\"");
}

TEST(Cif, ColumnsThatAreNotNeededMayBeMissing) {
  EXPECT_EQ(summary_of("data_x\nloop_\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n_atom_"
                       "site.auth_atom_id\n_atom_site.auth_comp_id\n"
                       "_atom_site.auth_asym_id\n_atom_site.auth_seq_id\n0 0 0 N ALA A 5\n1.2 0.8 0 CA ALA A "
                       "5\n2.45(3) 0 0 C ALA A 5\n"),
            "A:A");
  EXPECT_EQ(summary_of("data_x\nloop_\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n1 2 3\n"),
            "_atom_site has neither label_atom_id nor auth_atom_id");
}

TEST(Cif, WithoutAtomsOrCutOffIsAReason) {
  EXPECT_EQ(summary_of("data_x\n_cell.length_a 10\n"), "has no atoms: no _atom_site with coordinates");
  EXPECT_EQ(summary_of("data_x\n"), "has no atoms: no _atom_site with coordinates");
  const std::string cut = summary_of((kHead + kTwo).substr(0, kHead.size() + kTwo.size() - 20));
  EXPECT_TRUE(cut.starts_with("damaged or cut off: its line ")) << cut;
  EXPECT_TRUE(cut.ends_with(" does not continue as mmCIF")) << cut;
}

TEST(Cif, CoordinatesThatCannotBeCountAsMissing) {
  std::string text = kHead + kTwo;
  text.replace(text.find("1.200000 0.8"), 8, "?");
  const auto structure = parse(text);
  EXPECT_FALSE(structure.chains.at(0).residues.at(0).has_ca());
  EXPECT_TRUE(structure.chains[0].residues.at(1).has_frame());
}

TEST(Cif, AnyBytesEndInAStructureOrAReason) {
  std::mt19937 random(11);
  const std::string good = kHead + kTwo + "loop_\n_chem_comp.id\n_chem_comp.mon_nstd_parent_comp_id\nALA ?\n";
  int structures = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string text = good;
    for (unsigned change = random() % 4 + 1; change > 0; --change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 40);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 80));
          break;
      }
    }
    try {
      const auto structure = parse(text);
      ASSERT_FALSE(structure.chains.empty());
      for (const auto& chain : structure.chains) ASSERT_FALSE(chain.residues.empty());
      ++structures;
    } catch (const files::DataError& error) {
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(structures, 100);
}

}  // namespace
}  // namespace pipeline::structures
