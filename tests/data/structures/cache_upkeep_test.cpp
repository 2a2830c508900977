// What a run leaves behind, and what the next one does about it although no file is new.
#include <algorithm>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/structures/input_files.hpp"
#include "plugins/data/structures/structure_record.hpp"
#include "tests/data/structures/library_folder.hpp"
#include "tests/data/structures/ordinary_user.hpp"

namespace pipeline::structures {
namespace {

// Three files of half a megabyte in the cache each, and a small one; all are remembered.
class CacheUpkeep : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto* name : {"ALA", "GLY", "SER", "TRP", "TYR"}) {
      std::string text;
      for (int i = 1; i < 9999; ++i) text += residue(name, {.number = i, .x = i * 0.5}, {.atoms = {"CA"}});
      folder_.write(std::string(name) + ".pdb", text);
    }
    folder_.write("small.pdb", peptide({"LYS"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    folder_.open();
    ASSERT_GT(size(), 2'000'000u);
  }

  uint64_t size() const { return std::filesystem::file_size(folder_.cache_file()); }
  std::string part() const { return folder_.cache_file() + ".part"; }
  void remove(std::initializer_list<const char*> names) const {
    for (const char* name : names) std::filesystem::remove(folder_.files / name);
  }
  uint64_t said() const {
    return static_cast<uint64_t>(
        std::count_if(folder_.notes.begin(), folder_.notes.end(), [](const std::string& note) {
          return note.find("without what was parsed of files that are no more") != std::string::npos;
        }));
  }

  LibraryFolder folder_;
};

TEST_F(CacheUpkeep, FilesThatWereRemovedLeaveTheCacheThoughNoneIsNew) {
  const uint64_t all = size();
  const auto before = folder_.open();
  const std::string contents = contents_of(before);
  remove({"ALA.pdb"});
  EXPECT_EQ(folder_.open().size(), 5u);
  EXPECT_EQ(size(), all);  // most of it is used
  EXPECT_EQ(said(), 0u);
  remove({"GLY.pdb", "SER.pdb"});
  const auto library = folder_.open();
  EXPECT_EQ(library.counts().read, 0u);
  EXPECT_EQ(library.size(), 3u);
  EXPECT_EQ(library.structure(0).chains[0].residues.size(), 9998u);
  EXPECT_LT(size(), all / 2);
  EXPECT_EQ(said(), 1u);
  EXPECT_EQ(contents_of(before), contents);  // who has the old one open keeps it

  EXPECT_EQ(folder_.open().counts().read, 0u);
  EXPECT_TRUE(folder_.notes.empty());
  const FileIndex index(
      FileIndex::path_in(folder_.cache.path(), std::filesystem::canonical(folder_.files.path()).string()));
  EXPECT_EQ(index.entries().size(), 3u);
}

TEST_F(CacheUpkeep, WhatAnotherFolderUsesStays) {
  LibraryFolder other;
  const auto open_other = [&] {
    return StructureLibrary::open({.root = other.files.path(), .cache_dir = folder_.cache.path()},
                                  other.hooks());
  };
  for (const auto* name : {"ALA.pdb", "GLY.pdb", "SER.pdb"})
    other.write(name, tests::read_all(folder_.files / name));
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_EQ(open_other().counts().parsed, 0u);
  const uint64_t all = size();
  remove({"ALA.pdb", "GLY.pdb", "SER.pdb"});
  folder_.open();
  EXPECT_EQ(size(), all);
  EXPECT_EQ(open_other().counts().read, 0u);
}

TEST_F(CacheUpkeep, WhatAKilledProcessLeftIsRemovedWhetherOrNotAFileIsNew) {
  const std::string others = folder_.cache.write("protein-structures-1.cache.part", "old");
  const std::string kept = folder_.cache.write("others.part", "not ours");
  for (const bool is_new : {false, true}) {
    folder_.cache.write(std::filesystem::path(part()).filename().string(), std::string(1000, 'x'));
    if (is_new) folder_.write("new.pdb", peptide({"GLY", "SER"}));
    folder_.open();
    EXPECT_FALSE(std::filesystem::exists(part())) << is_new;
    EXPECT_TRUE(folder_.notes.empty());
  }
  EXPECT_FALSE(std::filesystem::exists(others));
  EXPECT_TRUE(std::filesystem::exists(kept));
}

// The part of a process that is at work is not left over.
TEST_F(CacheUpkeep, NobodyWaitsForItAndNothingIsTouchedWithoutTheLock) {
  as_ordinary_user({folder_.files.path(), folder_.cache.path()}, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    folder_.open();  // the files have another owner
    remove({"ALA.pdb", "GLY.pdb", "SER.pdb"});
    const uint64_t all = size();
    folder_.cache.write(std::filesystem::path(part()).filename().string(), "x");
    const auto nothing_is_done = [&] {
      EXPECT_EQ(folder_.open().size(), 3u);
      EXPECT_TRUE(folder_.notes.empty());
      EXPECT_EQ(size(), all);
      EXPECT_TRUE(std::filesystem::exists(part()));
    };
    {
      const files::FileLock lock(folder_.cache / kLockName, nullptr, nullptr);
      nothing_is_done();
    }
    std::filesystem::permissions(folder_.cache.path(), std::filesystem::perms(0500));
    nothing_is_done();
    std::filesystem::permissions(folder_.cache.path(), std::filesystem::perms(0700));
    EXPECT_EQ(folder_.open().counts().read, 0u);
    EXPECT_LT(size(), all / 2);
    EXPECT_FALSE(std::filesystem::exists(part()));
  });
}

// Each of the files in the cache folder, with a folder in its place.
TEST(CacheFolder, AFolderInPlaceOfAFileIsNamedWithWhatToDo) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  const std::string index =
      FileIndex::path_in(folder.cache.path(), std::filesystem::canonical(folder.files.path()).string());
  const std::string lock = folder.cache / kLockName;
  for (const std::string& path :
       {folder.cache_file(), index, lock, folder.cache_file() + ".part", index + ".part"}) {
    folder.open();  // so that the others are there
    std::filesystem::remove(path);
    std::filesystem::create_directories(path + "/with/something");
    const auto message = tests::message_of<files::DataError>([&] { folder.open(); });
    EXPECT_TRUE(message.starts_with(path + ": ")) << path << ": " << message;
    EXPECT_NE(message.find("remove it"), std::string::npos) << message;
    std::filesystem::remove_all(path);
    EXPECT_EQ(contents_of(folder.open()), "a:A") << path;
  }
}

TEST(CacheFolder, AFolderInPlaceOfTheTableIsSaid) {
  LibraryFolder folder;
  folder.write("a.pdb", peptide({"ALA"}));
  folder.write("bad.pdb", "nothing");
  folder.open();
  std::string table;
  for (const auto& entry : std::filesystem::directory_iterator(folder.cache.path())) {
    if (entry.path().extension() == ".txt") table = entry.path().string();
  }
  std::filesystem::remove(table);
  std::filesystem::create_directories(table + "/with/something");
  EXPECT_EQ(contents_of(folder.open()), "a:A");
  ASSERT_EQ(folder.notes.size(), 1u);
  EXPECT_TRUE(folder.notes[0].starts_with(table + ": the table of unusable files cannot be written there: "))
      << folder.notes[0];
}

}  // namespace
}  // namespace pipeline::structures
