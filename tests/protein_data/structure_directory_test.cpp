// What of the cache file is read, and what of it stays.
#include "plugins/tasks/protein/data/structure_directory.hpp"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/protein_data/library_folder.hpp"

namespace pipeline::protein {
namespace {

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }

// A few hundred kB in the cache.
std::string large(const std::string& name) {
  std::string text;
  for (const char chain : {'A', 'B', 'C', 'D'}) {
    for (int i = 1; i < 2500; ++i) text += residue(name, {.chain = chain, .number = i, .x = i * 0.5}, {.atoms = {"CA"}});
  }
  return text;
}

TEST(StructureDirectory, OnlyWhatIsOpenedIsRead) {
  LibraryFolder ours, other;
  other.write("o.pdb", peptide({"TRP", "TYR"}));
  ours.write("a.pdb", peptide({"ALA"}));
  const auto open = [&](LibraryFolder& folder) {
    folder.notes.clear();
    return StructureLibrary::open({.root = folder.files.path(), .cache_dir = ours.cache.path()}, folder.hooks());
  };
  settle();
  open(other);
  open(ours);
  EXPECT_EQ(StructureCache(ours.cache_file()).scanned(), 0u);
  std::string bytes = tests::read_all(ours.cache_file());
  bytes[sizeof(CacheFileHeader) + sizeof(RecordHeader) + 20] ^= 1;  // of the other's record, which is the first
  ours.cache.write(std::filesystem::path(ours.cache_file()).filename().string(), bytes);
  EXPECT_EQ(contents_of(open(ours)), "a:A");
  EXPECT_TRUE(ours.notes.empty());
  const auto library = open(other);
  EXPECT_EQ(contents_of(library), "o:WY");
  EXPECT_EQ(library.counts().parsed, 1u);
  ASSERT_EQ(other.notes.size(), 1u);
  EXPECT_NE(other.notes[0].find("damaged in 1 place"), std::string::npos);
  EXPECT_EQ(open(other).counts().parsed, 0u);
  EXPECT_TRUE(other.notes.empty());
  EXPECT_EQ(open(ours).counts().parsed, 0u);  // the file without the damage has it, too
}

TEST(StructureDirectory, OneThatIsMissingOrDamagedIsWrittenAgain) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("b.pdb", peptide({"GLY"}));
  settle();
  folder.open();
  const std::string path = StructureDirectory::path_of(folder.cache_file()), good = tests::read_all(path);
  for (size_t at = 0; at <= good.size(); ++at) {
    std::string bad = good;
    if (at < good.size()) {
      bad[at] = static_cast<char>(bad[at] ^ 4);
      folder.cache.write(std::filesystem::path(path).filename().string(), at % 2 == 0 ? bad : good.substr(0, at));
    } else {
      std::filesystem::remove(path);
    }
    const auto library = folder.open();
    ASSERT_EQ(contents_of(library), "a:A b:G") << at;
    ASSERT_EQ(library.counts().read, 0u) << at;
    ASSERT_EQ(tests::read_all(path), good) << at;
  }
  EXPECT_TRUE(folder.notes.empty());
}

TEST(StructureDirectory, OfAnotherCacheFileOfTheNameIsNotUsed) {
  LibraryFolder one, other;
  for (auto* folder : {&one, &other}) {
    folder->write("a.pdb", peptide({"ALA"}));
    folder->write(folder == &one ? "b.pdb" : "c.pdb", peptide({"GLY"}));
    folder->open();
  }
  const auto name = std::filesystem::path(StructureDirectory::path_of(one.cache_file())).filename().string();
  one.cache.write(name, tests::read_all(other.cache / name));
  EXPECT_EQ(StructureCache(one.cache_file()).scanned(), 2u);
  EXPECT_EQ(one.open().counts().parsed, 0u);
}

TEST(StructureDirectory, WhatMostlyNobodyUsesIsWrittenAnew) {
  LibraryFolder folder, other;
  other.write("o.pdb", peptide({"TRP", "TYR"}));
  settle();
  StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
  folder.write("a.pdb", large("ALA"));
  const auto first = folder.open();
  const std::string before = contents_of(first);
  const std::string path = StructureDirectory::path_of(folder.cache_file());
  const auto size = [&] { return std::filesystem::file_size(folder.cache_file()); };
  const uint64_t one = size();
  ASSERT_GT(one, 400'000u);
  std::string directory;
  uint64_t largest = 0;
  bool said = false;
  for (const auto* name : {"GLY", "SER", "TRP", "TYR", "LYS", "MET", "CYS"}) {  // the file changes: what it was before is used no more
    directory = tests::read_all(path);
    folder.write("a.pdb", large(name));
    const auto library = folder.open();
    EXPECT_EQ(library.structure(0).chains[3].residues[2000].amino_acid, parse(peptide({name})).chains[0].residues[0].amino_acid);
    largest = std::max<uint64_t>(largest, size());
    for (const auto& note : folder.notes)
      said = said || note.find("without what was parsed of files that are no more") != std::string::npos;
    if (said) break;
  }
  EXPECT_TRUE(said);
  EXPECT_LT(largest, 4 * one);
  EXPECT_LT(size(), one + 1000);
  EXPECT_EQ(contents_of(first), before);  // who has the old file open keeps it
  EXPECT_EQ(folder.open().counts().parsed, 0u);
  const auto foreign = StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
  EXPECT_EQ(foreign.counts().read, 0u);  // what another folder uses stays
  EXPECT_EQ(contents_of(foreign), "o:WY");

  // A process that ends between the new file and its directory leaves the old one's.
  folder.cache.write(std::filesystem::path(path).filename().string(), directory);
  EXPECT_EQ(folder.open().counts().parsed, 0u);
  EXPECT_TRUE(folder.notes.empty());
}

}  // namespace
}  // namespace pipeline::protein
