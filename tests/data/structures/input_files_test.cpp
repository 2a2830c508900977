#include <sys/stat.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "plugins/data/files/error.hpp"
#include "plugins/data/structures/input_files.hpp"
#include "plugins/data/structures/names.hpp"
#include "tests/data/structures/ordinary_user.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::structures {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

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

TEST(Names, AreShortWhereThatTellsThingsApart) {
  EXPECT_THAT(tell_apart({"1abc_A", "1abc_B", "2xyz"}, {"1abc:A", "1abc:B", "2xyz"}),
              ElementsAre("1abc_A", "1abc_B", "2xyz"));
}

TEST(Names, AreLongWhereOthersAreTheSame) {
  EXPECT_THAT(tell_apart({"1abc_A", "1abc_A", "1abc_B"}, {"1abc:A", "1abc_A", "1abc:B"}),
              ElementsAre("1abc:A", "1abc_A", "1abc_B"));
}

TEST(Names, ALongNameThatIsAnothersShortOneIsNotTakenTwice) {
  EXPECT_THAT(tell_apart({"a", "a", "long-a"}, {"long-a", "other-a", "third"}),
              ElementsAre("long-a", "other-a", "third"));
}

TEST(Names, AreNumberedWhereNothingElseTellsThemApart) {
  EXPECT_THAT(tell_apart({"a", "a", "a-2", "a"}, {"a", "a", "a-2", "a"}),
              ElementsAre("a", "a-3", "a-2", "a-4"));
}

TEST(FileNames, HaveNoFolders) {
  EXPECT_THAT(file_names({"more/p1_A", "p2", "x/../y"}), ElementsAre("more-p1_A", "p2", "x-..-y"));
}

TEST(FileNames, HaveNothingThatAShellTakesForItsOwn) {
  EXPECT_THAT(file_names({"sp|P69905|HBA_HUMAN", "a*b?<c>", "x~2", "$HOME", ".hidden", "-rf", "1abc:A"}),
              ElementsAre("sp-P69905-HBA_HUMAN", "a-b--c-", "x-2", "_HOME", "_hidden", "_rf", "1abc:A"));
}

TEST(FileNames, AreUnmistakableWhereTheUsualOnesWouldBeTheSame) {
  EXPECT_THAT(file_names({"x/y", "x-y", "z/y"}), ElementsAre("x%2Fy", "x-y", "z-y"));
  const std::vector<std::string> tricky{"x/y", "x-y", "x%2Fy", "x\ny", "x%0Ay"};
  const std::vector<std::string> files = file_names(tricky);
  EXPECT_EQ(std::set<std::string>(files.begin(), files.end()).size(), tricky.size());
  for (const std::string& file : files) EXPECT_EQ(file.find_first_of("/\n"), std::string::npos) << file;
}

TEST(FileNames, AreNotLongerThanAFileSystemTakes) {
  const std::string folders(300, 'd'),
      letters = std::string(182, 'd') + "\u00e4\u00e4\u00e4" + std::string(60, 'd');
  const std::vector<std::string> files = file_names({folders + "/a", folders + "/b", letters});
  EXPECT_NE(files[0], files[1]);
  for (const std::string& file : files) {
    EXPECT_LE(file.size(), 200u);
    EXPECT_TRUE(file.starts_with("ddd"));
  }
  EXPECT_EQ(files[2].find("\xc3-"), std::string::npos) << "cut within a letter";
}

}  // namespace
}  // namespace pipeline::structures
