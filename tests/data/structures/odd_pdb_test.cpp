// PDB files as programs and accidents make them.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tests/data/structures/pdb_text.hpp"

namespace pipeline::structures {
namespace {

const std::string kPlain = peptide({"ALA", "GLY", "SER"});

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

TEST(OddPdb, LinesEndInAnyWay) {
  EXPECT_EQ(summary_of(replaced(kPlain, "\n", "\r\n")), "A:AGS");
  EXPECT_EQ(summary_of(replaced(kPlain, "\n", "\r")), "A:AGS");
  EXPECT_EQ(summary_of(kPlain.substr(0, kPlain.size() - 1)), "A:AGS");
}

TEST(OddPdb, LinesEndWhereTheyLike) {
  ASSERT_EQ(kPlain.find('\n') + 1, 79u);
  for (size_t width = 54; width < 78; ++width) {
    std::string text;
    for (size_t at = 0; at < kPlain.size(); at += 79) text += kPlain.substr(at, width) + "\n";
    EXPECT_EQ(summary_of(text), "A:AGS") << width;
  }
  EXPECT_EQ(summary_of(replaced(kPlain, "\n", std::string(5000, 'x') + "\n")), "A:AGS");
}

TEST(OddPdb, AFileThatIsCutOffIsAReasonWithTheLine) {
  EXPECT_EQ(summary_of("REMARK\n" + kPlain.substr(0, 79 * 2 + 30)),
            "line 4: an atom with 30 characters instead of at least 54: the file is cut off, or not in the "
            "PDB's format");
}

TEST(OddPdb, OtherRecordsCannotFailIt) {
  EXPECT_EQ(summary_of("HEADER\nREMARK 350 BIOMOLECULE\nSEQRES\nDBREF\nCRYST1 "
                       "xxx\nMTRIX1\nANISOU\nSSBOND\nLINK\nCISPEP\nHELIX\nSHEET\nMODRES\n" +
                       kPlain + "ANISOU\nANISOU\nCONECT    1    x\nMASTER\nEND\n"),
            "A:AGS");
}

TEST(OddPdb, ChargesThatAreNoneCannotFailIt) {
  EXPECT_EQ(summary_of(replaced(kPlain, "\n", "??junk\n")), "A:AGS");
}

TEST(OddPdb, AtomsMayBeInAnyOrder) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < kPlain.size(); at += 79) lines.push_back(kPlain.substr(at, 79));
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::shuffle(lines.begin(), lines.end(), random);
    std::string text;
    for (const auto& line : lines) text += line;
    const auto structure = parse(text);
    ASSERT_EQ(structure.chains.size(), 1u);
    ASSERT_EQ(structure.chains[0].residues.size(), 3u);
    for (const auto& r : structure.chains[0].residues) EXPECT_TRUE(r.has_frame());
  }
}

TEST(OddPdb, NamesOfFourLettersAreNotTakenForChains) {
  const auto four = [](const std::string& name, char chain, int number) {
    return replaced(residue("XXX", {.chain = chain, .number = number}), std::string("XXX ") + chain,
                    name + chain);
  };
  EXPECT_EQ(summary_of(four("NALA", 'A', 1) + peptide({"GLY"}, 'A', 2) + four("CHIE", 'A', 3)), "A:AGH");
  EXPECT_EQ(summary_of(peptide({"ALA"}) + four("LYSH", 'A', 2) + peptide({"GLY"}, 'A', 3)), "A:AKG");
  EXPECT_EQ(summary_of(four("LYSH", ' ', 1) + four("HISB", ' ', 2) + four("ALAX", ' ', 3)), ":KHA");
  EXPECT_EQ(summary_of(four("ALAA", 'B', 1) + four("GLYA", 'B', 2)), "AB:AG");  // a chain of two letters
}

TEST(OddPdb, NumbersOfFiveDigitsAreRead) {
  const auto structure = parse(residue("ALA", {.number = 1000, .insertion = '8', .x = 0}) +
                               residue("GLY", {.number = 1000, .insertion = '9', .x = 9}));
  const auto& residues = structure.chains.at(0).residues;
  EXPECT_EQ(residues.at(0).number, 10008);
  EXPECT_EQ(residues.at(1).number, 10009);
  EXPECT_EQ(residues[1].insertion, ' ');
  EXPECT_EQ(residues[1].position, 1);
}

TEST(OddPdb, LowerCaseIsRead) {
  std::string lower = "MODRES 2ABC XYZ a    4  TYR  SOMETHING NEW\n" + kPlain +
                      residue("XYZ", {.number = 4}, {.record = "HETATM"}) +
                      residue("HOH", {.number = 9}, {.record = "HETATM", .atoms = {"O"}});
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  EXPECT_EQ(summary_of(lower), "a:AGSY");
  EXPECT_TRUE(parse(lower).chains.at(0).residues.at(0).has_frame());
}

// The numbers of these lines' residues.
std::string numbered(const std::string& text, const std::string& number) {
  std::string result = text;
  for (size_t at = 0; at < text.size(); at += 79) result.replace(at + 22, 4, number);
  return result;
}

TEST(OddPdb, ResiduesWithoutANumberCountOn) {
  for (const auto* none : {"****", "    ", " ?? "}) {
    const auto alone = parse(numbered(peptide({"ALA", "ALA", "GLY", "GLY", "SER"}), none));
    ASSERT_EQ(alone.chains.size(), 1u) << none;
    EXPECT_EQ(sequence_of(alone.chains[0]), "AAGGS");
    EXPECT_EQ(numbers_of(alone.chains[0]), (std::vector{1, 2, 3, 4, 5}));
    EXPECT_EQ(alone.remark,
              "5 residues have no readable number, the first in line 1: counted on from the one before");
    for (const auto& r : alone.chains[0].residues) EXPECT_TRUE(r.has_frame());
  }
  // Some programs write asterisks for a number that does not fit.
  const std::string fits =
                        residue("TRP", {.number = 9998, .x = 1}) + residue("TRP", {.number = 9999, .x = 2}),
                    not_fits = numbered(residue("ALA", {.x = 3}) + residue("ALA", {.x = 4}), "****");
  const auto structure = parse(fits + not_fits);
  ASSERT_EQ(structure.chains.size(), 1u);
  EXPECT_EQ(numbers_of(structure.chains[0]), (std::vector{9998, 9999, 10000, 10001}));
  EXPECT_EQ(structure.remark,
            "2 residues have no readable number, the first in line 9: counted on from the one before");
}

TEST(OddPdb, AlternateLocationsOfAResidueWithoutANumberAreOneResidue) {
  const std::string text = numbered(
      residue("ALA", {.x = 1}) + residue("SER", {.x = 2}, {.altloc = 'A', .occupancy = 0.4}) +
          residue("SER", {.x = 2, .y = 1}, {.altloc = 'B', .occupancy = 0.6}) + residue("SER", {.x = 3}),
      "****");
  EXPECT_EQ(summary_of(text), "A:ASS");
}

TEST(OddPdb, ANumberThatGemmiTakesForNoneIsKept) {
  EXPECT_EQ(numbers_of(parse(peptide({"ALA", "GLY"}, 'A', -999)).chains.at(0)), (std::vector{-999, -998}));
}

TEST(OddPdb, AfterEndItGoesOnWithWhatIsNew) {
  const std::string b = peptide({"TRP", "TYR"}, 'B');
  EXPECT_EQ(summary_of(kPlain + "TER\nEND\n" + b + "TER\nEND\n"), "A:AGS B:WY");
  EXPECT_EQ(summary_of(kPlain + "END\n" + peptide({"TRP"}, 'A', 4) + "END\n"), "A:AGSW");
  EXPECT_EQ(summary_of(kPlain + "END\n" + peptide({"TRP"}) + "END\n"),
            "A:AGS A-2:W");  // another residue at the same number
  EXPECT_EQ(summary_of(kPlain + "END\n" + kPlain + b + "END\n"), "A:AGS A-2:AGS B:WY");
  EXPECT_EQ(summary_of(kPlain + "END\n" + kPlain + "END\n" + b + "END\n"), "A:AGS B:WY");
}

TEST(OddPdb, WhatComesAgainAfterEndIsAnotherModel) {
  EXPECT_EQ(summary_of(kPlain + "END\n" + kPlain + "END\n" + kPlain + "END\n"), "A:AGS");
  EXPECT_EQ(summary_of(kPlain + "END\nMODEL        2\n" + peptide({"TRP"}, 'B') + "ENDMDL\n"), "A:AGS");
  std::string moved = kPlain;
  moved.replace(30, 8, "   9.999");
  EXPECT_EQ(summary_of(kPlain + "END\n" + moved), "A:AGS");
}

TEST(OddPdb, AnEndThatIsMissingIsSaidWhereOneIsSureToHaveBeen) {
  const auto remark = [](const std::string& text) { return parse(text).remark; };
  const std::string entry = "SEQRES   1 A    3  ALA GLY SER\n",
                    water = residue("HOH", {.number = 9}, {.record = "HETATM", .atoms = {"O"}});
  EXPECT_EQ(remark(entry + kPlain),
            "may be cut off: it has SEQRES records, but ends in a chain without TER or END");
  EXPECT_EQ(remark("MODEL        1\n" + kPlain),
            "may be cut off: it has MODEL records, but ends in a chain without TER or END");
  for (const auto& whole :
       {entry + kPlain + "END\n", entry + kPlain + "TER\n", entry + kPlain + "MASTER\n",
        entry + kPlain + "CONECT    1\n", entry + kPlain + water, "MODEL        1\n" + kPlain + "ENDMDL\n",
        "MODEL        1\n" + kPlain + "MODEL        2\n" + kPlain, "HEADER    X\nTITLE     Y\n" + kPlain,
        kPlain + "TER\n" + peptide({"TRP"}, 'B'), kPlain}) {
    EXPECT_EQ(remark(whole), "") << whole;
  }
}

TEST(OddPdb, ColumnsThatAreShiftedAreShown) {
  std::string shifted;
  for (size_t at = 0; at < kPlain.size(); at += 79) shifted += "ATOM  1000000" + kPlain.substr(at + 11, 68);
  const std::string reason = summary_of(shifted);
  EXPECT_TRUE(reason.starts_with(
      "has no protein chain: none of its 12 atoms is an amino acid's, as in line 1, \"ATOM  1000000"))
      << reason;
}

TEST(OddPdb, ElementsAndColumnsOfAtomNamesDoNotMatter) {
  std::string text = replaced(replaced(kPlain, "  CA  ", " CA   "), "  N   ", " N    ");
  EXPECT_TRUE(parse(text).chains.at(0).residues.at(0).has_frame());
  for (size_t at = 77; at < text.size(); at += 79) text[at] = ' ';
  EXPECT_TRUE(parse(text).chains.at(0).residues.at(0).has_frame());
}

TEST(OddPdb, WhatHoldsNoAtomsIsAReason) {
  EXPECT_EQ(summary_of(""), "is empty");
  EXPECT_EQ(summary_of("HEADER    A FILE\nEND\n"), "has no atoms: no ATOM or HETATM records");
  EXPECT_EQ(summary_of("hello, world"), "has no atoms: no ATOM or HETATM records");
  EXPECT_EQ(summary_of(std::string(1000, '\0')), "has no atoms: no ATOM or HETATM records");
}

// Whatever the bytes: residues that keep what structure.hpp promises, or a reason of one line.
TEST(OddPdb, AnyBytesEndInAStructureOrAReason) {
  std::mt19937 random(7);
  const std::string good = "MODRES 2ABC MSE A    2  MET  X\n" + kPlain + "TER\n" +
                           peptide({"ALA", "MSE"}, ' ') + "HETATM" + kPlain.substr(6, 73) + "END\n";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (unsigned change = random() % 8 + 1; change > 0; --change) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = " 0123456789-.ANCX\n\r"[random() % 19];
          break;
        case 2:
          text.erase(at, random() % 90);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 200));
          break;
      }
      if (text.empty()) text = " ";
    }
    try {
      const auto structure = parse(text);
      ASSERT_FALSE(structure.chains.empty());
      for (const auto& chain : structure.chains) {
        int before = -1;
        ASSERT_FALSE(chain.residues.empty());
        for (const auto& r : chain.residues) {
          ASSERT_LE(r.amino_acid, residues::kUnknown);
          ASSERT_GT(r.position, before);
          before = r.position;
          for (const float x : {r.n.x, r.ca.y, r.c.z}) ASSERT_LE(std::abs(x), 1e5f);
          ASSERT_TRUE(r.has_ca() || !r.has_frame());
        }
      }
    } catch (const files::DataError& error) {
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace pipeline::structures
