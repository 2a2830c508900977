// What a user is told of files that are used, and of files that are copies: which they are.
#include <algorithm>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "core/base/utf8.hpp"
#include "tests/data/structures/gzip.hpp"
#include "tests/data/structures/library_folder.hpp"

namespace pipeline::structures {
namespace {

std::string table_in(const LibraryFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.cache.path())) {
    if (entry.path().extension() == ".txt") return tests::read_all(entry.path().string());
  }
  return "";
}

TEST(StructureLibraryCopies, AreNamedWithWhatTheyAreCopiesOf) {
  LibraryFolder folder;
  folder.write("dup-a.pdb", peptide({"ALA", "GLY"}));
  folder.write("dup-b.ent", "REMARK other\n" + peptide({"ALA", "GLY"}));
  folder.write("dup-c.pdb.gz", gzip(peptide({"ALA", "GLY"})));
  folder.write("else.pdb", peptide({"TRP"}));
  for (int round = 0; round < 2; ++round) {  // the second time from the cache
    const auto library = folder.open();
    EXPECT_EQ(library.counts().duplicates, 2u);
    EXPECT_EQ(folder.notes, (std::vector<std::string>{"dup-b.ent is a copy of dup-a.pdb",
                                                      "dup-c.pdb.gz is a copy of dup-a.pdb"}));
    EXPECT_EQ(library.report(), "");  // nothing is wrong
    EXPECT_EQ(table_in(folder),
              "2 files are copies of others:\n"
              "  dup-b.ent     is a copy of dup-a.pdb\n"
              "  dup-c.pdb.gz  is a copy of dup-a.pdb\n");
  }
}

TEST(StructureLibraryCopies, TheFirstAreInTheLogAndAllInTheTable) {
  LibraryFolder folder;
  for (int i = 10; i < 46; ++i) folder.write("f" + std::to_string(i) + ".pdb", peptide({"ALA"}));
  folder.open();
  ASSERT_EQ(folder.notes.size(), 11u);
  EXPECT_EQ(folder.notes[9], "f20.pdb is a copy of f10.pdb");
  EXPECT_TRUE(folder.notes[10].starts_with("and 25 more copies: see " + folder.cache.path()))
      << folder.notes[10];
  const std::string all = table_in(folder);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 36);
  EXPECT_NE(all.find("\n  f45.pdb  is a copy of f10.pdb\n"), std::string::npos);
}

// 76 residues; every `step`-th is as `odd` has it.
std::string chain(int step, const Style& odd, double far = 0) {
  std::string text;
  for (int i = 1; i <= 76; ++i) {
    text += i % step == 0 ? residue("GLY", {.number = i, .y = far}, odd) : residue("ALA", {.number = i});
  }
  return text;
}

TEST(StructureLibraryFrames, StructuresThatLackManyAreListedWithTheCount) {
  LibraryFolder folder;
  folder.write("1whole.pdb", chain(100, {}));
  folder.write("2usual.pdb", chain(26, {.atoms = {"CA"}}));  // a loop that was hardly seen
  folder.write("3traces.pdb", chain(1, {.atoms = {"CA"}}));
  folder.write("4fifth.pdb", chain(5, {.atoms = {"CA", "O"}}));
  folder.write("5nan.pdb", chain(10, {}, std::numeric_limits<double>::quiet_NaN()));
  folder.write("6one.pdb", residue("ALA", {}, {.atoms = {"CA"}}));
  folder.write("7both.pdb", "SEQRES\n" + chain(10, {.atoms = {"N", "CA"}}));
  for (int round = 0; round < 2; ++round) {  // the second time from the cache
    const auto library = folder.open();
    EXPECT_EQ(library.size(), 7u);
    EXPECT_EQ(library.counts().odd, 5u);
    const std::string why = " no N, CA and C that make a backbone: the model sees no frame there";
    const std::string report = library.report(),
                      fourth = "  4fifth.pdb   of 76 residues 15 have" + why + "\n";
    EXPECT_TRUE(report.starts_with("5 files are used but odd:\n  3traces.pdb  of 76 residues 76 have" + why +
                                   "\n" + fourth))
        << report;
    EXPECT_NE(report.find("  5nan.pdb     of 76 residues 7 have" + why + "\n"), std::string::npos) << report;
    EXPECT_NE(report.find("  6one.pdb     of 1 residue 1 has" + why + "\n"), std::string::npos) << report;
    EXPECT_NE(report.find("; of 76 residues 7 have" + why + "\n"), std::string::npos) << report;
  }
}

bool is_utf8(std::string_view text) { return replace_invalid_utf8(std::string(text)) == text; }

TEST(StructureLibraryNames, AreUtf8WhateverFilesAndChainsAreCalled) {
  LibraryFolder folder;
  const std::string accent = "caf\u00e9";
  const std::vector<std::string> names{
      accent, "caf\xe9", "caf%E9", "cut\xc3", "over\xc0\xaf", "surrogate\xed\xa0\x80", "\xff\xfe/\xff"};
  int number = 0;
  for (const auto& name : names) folder.write(name + ".pdb", peptide({"ALA"}, 'A', ++number));
  folder.write("chain.pdb", peptide({"GLY"}, '\xe9'));
  folder.write("bad\xff.pdb", "nothing");
  folder.write("same\xff.pdb", peptide({"GLY"}, '\xe9'));
  const auto library = folder.open();
  std::set<std::string> seen;
  for (uint64_t i = 0; i < library.size(); ++i) {
    const StructureView structure = library.structure(i);
    EXPECT_TRUE(is_utf8(structure.name)) << structure.name;
    EXPECT_TRUE(is_utf8(structure.chains[0].name))
        << structure.chains[0].name;  // the parser takes printable ASCII only
    seen.emplace(structure.name);
  }
  EXPECT_EQ(seen, (std::set<std::string>{accent, "caf%E9", "caf%E9-2", "chain", "cut%C3", "over%C0%AF",
                                         "surrogate%ED%A0%80", "%FF%FE/%FF"}));
  EXPECT_TRUE(library.report().starts_with("  bad%FF.pdb  has no atoms")) << library.report();
  EXPECT_EQ(folder.notes, std::vector<std::string>{"same%FF.pdb is a copy of chain.pdb"});
}

}  // namespace
}  // namespace pipeline::structures
