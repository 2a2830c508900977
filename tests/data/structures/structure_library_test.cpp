#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "core/base/utf8.hpp"
#include "plugins/data/structures/structure_library.hpp"
#include "tests/data/structures/library_folder.hpp"
#include "tests/data/structures/ordinary_user.hpp"
#include "tests/support/gzip.hpp"

namespace pipeline::structures {
namespace {

TEST(StructureLibrary, HoldsTheStructuresOfAFolderByName) {
  LibraryFolder folder;
  folder.write("z.pdb", peptide({"TRP"}));
  folder.write("sub/b.ent", peptide({"ALA"}) + peptide({"GLY", "SER"}, 'B'));
  folder.write("notes.txt", "x");
  const auto library = folder.open();
  EXPECT_EQ(contents_of(library), "sub/b:A/GS z:W");
  EXPECT_EQ(library.structure(0).chains[1].name, "B");
  EXPECT_FLOAT_EQ(library.structure(0).chains[1].residues[1].ca.x, 7.6f + 1.2f);
  EXPECT_EQ(library.structure(1).key, files::hash128(peptide({"TRP"})));
  const LibraryCounts& counts = library.counts();
  EXPECT_EQ(counts.files, 2u);
  EXPECT_EQ(counts.structures, 2u);
  EXPECT_EQ(counts.residues, 4u);
  EXPECT_EQ(counts.ignored, 1u);
  EXPECT_EQ(counts.parsed, 2u);
  EXPECT_EQ(folder.notes, std::vector<std::string>{"ignored 1 file: .txt 1"});
  EXPECT_EQ(library.report(), "");
}

TEST(StructureLibrary, ResiduesAreReadWhereTheyLieInTheCache) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA", "GLY"}) + peptide({"SER"}, 'B'));
  const auto library = folder.open();
  uintptr_t begin = 0, end = 0;  // where the cache file is mapped
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(folder.cache_file()) == std::string::npos) continue;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx", &begin, &end), 2);
  }
  ASSERT_LT(begin, end);
  ASSERT_FALSE(library.structure(0).chains.empty());
  for (const auto& chain : library.structure(0).chains) {
    const auto first = reinterpret_cast<uintptr_t>(chain.residues.data());
    EXPECT_EQ(first % alignof(residues::Residue), 0u);
    EXPECT_GE(first, begin);
    EXPECT_LE(first + chain.residues.size_bytes(), end);
    EXPECT_GE(reinterpret_cast<uintptr_t>(chain.name.data()), begin);
    EXPECT_LT(reinterpret_cast<uintptr_t>(chain.name.data()), end);
  }
}

TEST(StructureLibrary, NamesStayDifferent) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("a.cif", peptide({"GLY"}));
  folder.write("a.pdb.pdb", peptide({"SER"}));
  folder.write("b.PDB.gz", peptide({"TRP"}));
  EXPECT_EQ(contents_of(folder.open()), "a.cif:G a.pdb:A a.pdb.pdb:S b:W");
}

TEST(StructureLibrary, FilesOfOneContentAreOneStructure) {
  LibraryFolder folder;
  folder.write("b.pdb", peptide({"ALA"}));
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("c.ent", peptide({"ALA"}));
  const auto library = folder.open();
  EXPECT_EQ(contents_of(library), "a:A");
  EXPECT_EQ(library.counts().duplicates, 2u);
  EXPECT_EQ(library.counts().files, 3u);
}

TEST(StructureLibrary, FilesWithTheSameChainsAreOneStructureHoweverPacked) {
  LibraryFolder folder;
  const std::string text = peptide({"ALA", "GLY"});
  folder.write("a.pdb", text);
  folder.write("b.pdb.gz", tests::gzip(text));
  folder.write("c.pdb", "REMARK other\n" + text);
  folder.write("d.pdb", peptide({"ALA", "GLY"}, 'B'));  // another name
  const auto library = folder.open();
  EXPECT_EQ(contents_of(library), "a:AG d:AG");
  EXPECT_EQ(library.counts().duplicates, 2u);
}

TEST(StructureLibrary, FilesThatAreOddAreUsedAndListed) {
  LibraryFolder folder;
  folder.write("good.pdb", peptide({"ALA"}));
  folder.write("cut.pdb", "SEQRES\n" + peptide({"GLY"}));
  folder.write("water.pdb", residue("HOH", {}, {.atoms = {"O"}}));
  for (int round = 0; round < 2; ++round) {  // the second time from the cache
    const auto library = folder.open();
    EXPECT_EQ(contents_of(library), "cut:G good:A");
    EXPECT_EQ(library.counts().odd, 1u);
    const std::string report = library.report();
    EXPECT_NE(report.find("\n1 file is used but odd:\n  cut.pdb  may be cut off: it has SEQRES records"),
              std::string::npos)
        << report;
    EXPECT_TRUE(report.starts_with("  water.pdb  has no protein chain")) << report;
  }
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder.cache.path())) {
    if (entry.path().extension() == ".txt") all = tests::read_all(entry.path().string());
  }
  EXPECT_EQ(all, folder.open().report());
}

TEST(StructureLibrary, WhatCannotBeReadIsListedAndFailsNothing) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("b.pdb", peptide({"GLY"}));
  folder.write("lost+found/c.pdb", peptide({"SER"}));
  folder.write("z.pdb", peptide({"TRP"}));
  as_ordinary_user({folder.files.path(), folder.cache.path()}, [&] {
    std::filesystem::permissions(folder.files / "lost+found", std::filesystem::perms::none);
    std::filesystem::permissions(folder.files / "b.pdb", std::filesystem::perms::none);
    const auto library = folder.open();
    EXPECT_EQ(contents_of(library), "a:A z:W");
    EXPECT_EQ(library.counts().files, 4u);
    EXPECT_EQ(library.report(),
              "  b.pdb        cannot be read: Permission denied\n"
              "  lost+found/  a folder that cannot be searched: Permission denied\n");
    std::filesystem::permissions(folder.files / "lost+found", std::filesystem::perms::owner_all);
  });
}

TEST(StructureLibrary, UnusableFilesAreListedAndFailNothing) {
  LibraryFolder folder;
  folder.write("good.pdb", peptide({"ALA"}));
  folder.write("empty.pdb", "");
  folder.write("sub/water.pdb", residue("HOH", {}, {.atoms = {"O"}}));
  std::filesystem::create_symlink(folder.files / "nothing", folder.files / "dead.pdb");
  const auto library = folder.open();
  EXPECT_EQ(library.counts().unusable, 3u);
  const std::string table =
      "  dead.pdb       not there (any more)\n"
      "  empty.pdb      is empty\n"
      "  sub/water.pdb  has no protein chain: none of its 1 atoms is an amino acid's";
  EXPECT_EQ(library.report().substr(0, table.size()), table);
}

TEST(StructureLibrary, ALongTableOfUnusableFilesGoesToAFile) {
  LibraryFolder folder;
  for (int i = 10; i < 43; ++i)
    folder.write("bad" + std::to_string(i) + ".pdb", "nothing " + std::to_string(i));
  for (int i = 0; i < 9; ++i) folder.write("good" + std::to_string(i) + ".pdb", peptide({"ALA"}, 'A', i + 1));
  const auto library = folder.open();
  const std::string report = library.report();
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 21);
  const size_t more = report.find("  and 13 more: see ");
  ASSERT_NE(more, std::string::npos) << report;
  const std::string path = report.substr(more + 19, report.size() - more - 20);
  const std::string all = tests::read_all(path);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 33);
  EXPECT_NE(all.find("  bad42.pdb  has no atoms"), std::string::npos);
  for (int i = 10; i < 43; ++i) std::filesystem::remove(folder.files / ("bad" + std::to_string(i) + ".pdb"));
  folder.open();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(StructureLibrary, TooManyUnusableFilesAreAnErrorWithTheTable) {
  LibraryFolder folder;
  for (int i = 0; i < 3; ++i)
    folder.write("bad" + std::to_string(i) + ".pdb", "nothing " + std::to_string(i));
  folder.write("good.pdb", peptide({"ALA"}));
  auto options = folder.options();
  options.max_unusable_share = 0.5;
  options.max_unusable_option = "task.data.max_unusable";
  const auto message =
      tests::message_of<files::DataError>([&] { StructureLibrary::open(options, folder.hooks()); });
  EXPECT_TRUE(
      message.starts_with(folder.files.path() +
                          ": 3 of 4 files cannot be used (75%), at most 50% may be (task.data.max_unusable): "
                          "correct or remove them, or raise it\n  bad0.pdb"))
      << message;
  options.max_unusable_share = 0.75;
  EXPECT_EQ(StructureLibrary::open(options, folder.hooks()).size(), 1u);

  options.root = folder.files / "bad0.pdb";
  options.max_unusable_share = 1;
  EXPECT_NE(tests::message_of<files::DataError>([&] {
              StructureLibrary::open(options, folder.hooks());
            }).find("1 of 1 file cannot be used"),
            std::string::npos);
}

TEST(StructureLibrary, TheCacheMayLieInTheSameFolder) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("empty.pdb", "");
  auto options = folder.options();
  options.cache_dir = options.root;
  for (int round = 0; round < 3; ++round) {
    const auto library = StructureLibrary::open(options, folder.hooks());
    EXPECT_EQ(contents_of(library), "a:A");
    EXPECT_EQ(library.counts().files, 2u);
    EXPECT_EQ(library.counts().ignored, 0u);
    EXPECT_EQ(library.counts().parsed, round == 0 ? 2u : 0u);
  }
}

TEST(StructureLibrary, OneFileIsALibraryToo) {
  LibraryFolder folder;
  folder.write("a.old", peptide({"ALA"}));
  auto options = folder.options();
  options.root = folder.files / "a.old";
  EXPECT_EQ(contents_of(StructureLibrary::open(options, folder.hooks())), "a.old:A");
}

TEST(StructureLibrary, TheFingerprintGoesByNamesAndContents) {
  LibraryFolder one, other;
  for (auto* folder : {&one, &other}) {
    folder->write("a.pdb", peptide({"ALA"}));
    folder->write("b.pdb", peptide({"GLY"}));
  }
  const auto fingerprint = one.open().fingerprint();
  EXPECT_EQ(fingerprint, other.open().fingerprint());
  other.write("b.pdb", peptide({"SER"}));
  EXPECT_NE(fingerprint, other.open().fingerprint());
  std::filesystem::rename(one.files / "a.pdb", one.files / "c.pdb");
  EXPECT_NE(fingerprint, one.open().fingerprint());
}

TEST(StructureLibrary, ProgressCountsTheFilesThatAreRead) {
  LibraryFolder folder;
  for (int i = 0; i < 7; ++i) folder.write(std::to_string(i) + ".pdb", peptide({"ALA"}, 'A', i + 1));
  auto hooks = folder.hooks();
  std::vector<uint64_t> seen;
  hooks.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, 7u);
    seen.push_back(done);
  };
  StructureLibrary::open(folder.options(), hooks);
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7}));
}

// What a user is told of files that are used, and of files that are copies: which they are.

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
  folder.write("dup-c.pdb.gz", tests::gzip(peptide({"ALA", "GLY"})));
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
