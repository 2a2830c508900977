// What of the cache file is read, and what of it stays.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/data/structures/library_folder.hpp"

namespace pipeline::structures {
namespace {

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }

// A few hundred kB in the cache.
std::string large(const std::string& name) {
  std::string text;
  for (const char chain : {'A', 'B', 'C', 'D'}) {
    for (int i = 1; i < 2500; ++i)
      text += residue(name, {.chain = chain, .number = i, .x = i * 0.5}, {.atoms = {"CA"}});
  }
  return text;
}

TEST(StructureCacheUse, OnlyWhatIsOpenedIsRead) {
  LibraryFolder ours, other;
  other.write("o.pdb", peptide({"TRP", "TYR"}));
  ours.write("a.pdb", peptide({"ALA"}));
  const auto open = [&](LibraryFolder& folder) {
    folder.notes.clear();
    return StructureLibrary::open({.root = folder.files.path(), .cache_dir = ours.cache.path()},
                                  folder.hooks());
  };
  settle();
  open(other);
  open(ours);
  std::string bytes = tests::read_all(ours.cache_file());
  bytes[sizeof(stores::FileHeader) + sizeof(stores::RecordHeader) + 20] ^=
      1;  // in the other's record, which is the first
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

TEST(StructureCacheUse, WhatMostlyNobodyUsesIsWrittenAnew) {
  LibraryFolder folder, other;
  other.write("o.pdb", peptide({"TRP", "TYR"}));
  settle();
  StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
  folder.write("a.pdb", large("ALA"));
  const auto first = folder.open();
  const std::string before = contents_of(first);
  const auto size = [&] { return std::filesystem::file_size(folder.cache_file()); };
  const uint64_t one = size();
  ASSERT_GT(one, 400'000u);
  uint64_t largest = 0;
  bool said = false;
  for (const auto* name : {"GLY", "SER", "TRP", "TYR", "LYS", "MET",
                           "CYS"}) {  // the file changes: what it was before is used no more
    folder.write("a.pdb", large(name));
    const auto library = folder.open();
    EXPECT_EQ(library.structure(0).chains[3].residues[2000].amino_acid,
              parse(peptide({name})).chains[0].residues[0].amino_acid);
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
  const auto foreign =
      StructureLibrary::open({.root = other.files.path(), .cache_dir = folder.cache.path()}, other.hooks());
  EXPECT_EQ(foreign.counts().read, 0u);  // what another folder uses stays
  EXPECT_EQ(contents_of(foreign), "o:WY");
  EXPECT_EQ(folder.open().counts().parsed, 0u);
  EXPECT_TRUE(folder.notes.empty());
}

}  // namespace
}  // namespace pipeline::structures
