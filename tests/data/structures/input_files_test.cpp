#include <sys/stat.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "plugins/data/files/error.hpp"
#include "plugins/data/structures/input_files.hpp"
#include "tests/data/structures/ordinary_user.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::structures {
namespace {

namespace fs = std::filesystem;

class InputFilesTest : public ::testing::Test {
 protected:
  void write(const std::string& name) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    folder_.write(name, "x");
  }
  std::string found() const {
    std::string text;
    for (const auto& file : find_inputs(folder_.path(), nullptr).files)
      text += (text.empty() ? "" : " ") + file.relative;
    return text;
  }
  tests::FilesFolder folder_;
};

TEST_F(InputFilesTest, AreFoundByTheirEndingsInAnyFolderAndSorted) {
  for (const auto* name : {"b.pdb", "a.cif.gz", "sub/deep/c.ENT", "sub/d.mmCIF.GZ", "e.Pdb.gz", "no.txt",
                           "pdb", "x.pdbx", "f.pdb.bz2"})
    write(name);
  EXPECT_EQ(found(), "a.cif.gz b.pdb e.Pdb.gz sub/d.mmCIF.GZ sub/deep/c.ENT");
}

TEST_F(InputFilesTest, OthersAreCounted) {
  for (const auto* name :
       {"a.pdb", "1.txt", "2.TXT", "3.xyz", "README", "4.txt.gz", "5.a\nb", ".hidden.pdb", ".git/b.pdb"})
    write(name);
  for (const auto* name : {"protein-structures-1.cache", "protein-data.lock", "protein-unusable-0123abcd.txt",
                           "protein-unusable-0123abcd.txt.123.part", "protein-structures-2.index",
                           "protein-structures-2.index.part"})
    write(name);
  const auto inputs = find_inputs(folder_.path(), nullptr);
  EXPECT_EQ(inputs.ignored.text(), "6 files: .txt 2, without an ending 1, .a\\x0ab 1, .txt.gz 1, .xyz 1");
  EXPECT_EQ(inputs.files.size(), 1u);
}

TEST_F(InputFilesTest, LinksAreFollowedOnceAndDeadOnesAreInputsToo) {
  write("sub/a.pdb");
  fs::create_directory_symlink(folder_.path(), folder_ / "sub/loop");
  fs::create_directory_symlink(folder_ / "sub", folder_ / "zz");
  fs::create_symlink(folder_ / "sub/a.pdb", folder_ / "b.pdb");
  fs::create_symlink(folder_ / "nothing", folder_ / "dead.pdb");
  EXPECT_EQ(found(), "b.pdb dead.pdb sub/a.pdb");
}

TEST_F(InputFilesTest, OneFileIsTakenWhateverItsName) {
  write("structure.old");
  const auto inputs = find_inputs(folder_ / "structure.old", nullptr);
  ASSERT_EQ(inputs.files.size(), 1u);
  EXPECT_EQ(inputs.files[0].relative, "structure.old");
}

TEST_F(InputFilesTest, NoFolderAndNoInputAreErrorsThatSayWhatToDo) {
  EXPECT_EQ(
      tests::message_of<files::DataError>([&] { find_inputs(folder_ / "no", nullptr); }),
      (folder_ / "no") + ": No such file or directory: name a folder of structure files, or one such file");
  EXPECT_EQ(
      tests::message_of<files::DataError>([&] { found(); }),
      folder_.path() +
          ": no structure files: looked for .pdb, .ent, .cif, .mmcif, and these with .gz, and found nothing");
  write("a.txt");
  EXPECT_NE(tests::message_of<files::DataError>([&] { found(); }).find("and found 1 file: .txt 1"),
            std::string::npos);
}

TEST_F(InputFilesTest, WhatCannotBeReadIsListedAndTheSearchGoesOn) {
  for (const auto* name : {"a.pdb", "closed/b.pdb", "names/c.pdb", "names/d", "z.pdb"}) write(name);
  fs::create_symlink(folder_ / "itself.pdb", folder_ / "itself.pdb");
  as_ordinary_user({folder_.path()}, [&] {
    ::chmod((folder_ / "closed").c_str(), 0);
    ::chmod((folder_ / "names").c_str(), 0400);  // what is in it can be listed, but not looked at
    const InputFiles inputs = find_inputs(folder_.path(), nullptr);
    std::string list;
    for (const auto& [path, text] : inputs.unreadable) list += path + ": " + text + "\n";
    EXPECT_EQ(list,
              "closed/: a folder that cannot be searched: Permission denied\n"
              "itself.pdb: cannot be looked at: Too many levels of symbolic links\n"
              "names/c.pdb: cannot be looked at: Permission denied\n"
              "names/d: cannot be looked at: Permission denied\n");
    EXPECT_EQ(found(), "a.pdb z.pdb");
    EXPECT_EQ(inputs.ignored.count(), 0u);
    EXPECT_NE(tests::message_of<files::DataError>([&] {
                find_inputs(folder_ / "names", nullptr);
              }).find("c.pdb: cannot be looked at"),
              std::string::npos);
    EXPECT_NE(tests::message_of<files::DataError>([&] {
                find_inputs(folder_ / "closed", nullptr);
              }).find("must be readable"),
              std::string::npos);
    for (const auto* name : {"closed", "names"}) ::chmod((folder_ / name).c_str(), 0700);
  });
}

TEST(WithoutEnding, LeavesTheName) {
  EXPECT_EQ(without_ending("sub/1abc.pdb.gz"), "sub/1abc");
  EXPECT_EQ(without_ending("1abc.CIF"), "1abc");
  EXPECT_EQ(without_ending("a.b.mmcif.GZ"), "a.b");
  EXPECT_EQ(without_ending("a.old"), "a.old");
}

}  // namespace
}  // namespace pipeline::structures
