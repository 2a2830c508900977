#include "plugins/data/structures/names.hpp"

#include <gmock/gmock.h>

#include <set>

namespace pipeline::structures {
namespace {

using testing::ElementsAre;

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
