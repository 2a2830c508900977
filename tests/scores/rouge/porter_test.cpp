#include "plugins/scores/rouge/scorer.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <test_paths.hpp>

namespace pipeline::rouge {
namespace {

TEST(Porter, IrregularFormsComeFromATable) {
  EXPECT_EQ(porter_stem("skies"), "sky");
  EXPECT_EQ(porter_stem("dying"), "die");
  EXPECT_EQ(porter_stem("news"), "news");
  EXPECT_EQ(porter_stem("innings"), "inning");
  EXPECT_EQ(porter_stem("succeed"), "succeed");
}

TEST(Porter, DepartsFromThePaperWhereNltkDoes) {
  EXPECT_EQ(porter_stem("dies"), "die");
  EXPECT_EQ(porter_stem("died"), "die");
  EXPECT_EQ(porter_stem("flies"), "fli");
  EXPECT_EQ(porter_stem("enjoy"), "enjoy");
  EXPECT_EQ(porter_stem("happy"), "happi");
  EXPECT_EQ(porter_stem("geology"), "geolog");
  EXPECT_EQ(porter_stem("rationally"), "ration");
  EXPECT_EQ(porter_stem("hopefully"), "hope");
}

TEST(Porter, StemsAsThePaperDoes) {
  EXPECT_EQ(porter_stem("generously"), "gener");
  EXPECT_EQ(porter_stem("agreed"), "agre");
  EXPECT_EQ(porter_stem("sized"), "size");
  EXPECT_EQ(porter_stem("controlling"), "control");
  EXPECT_EQ(porter_stem("adoption"), "adopt");
  EXPECT_EQ(porter_stem("onion"), "onion");
}

TEST(Porter, ShortWordsAndRunsOfYStand) {
  EXPECT_EQ(porter_stem(""), "");
  EXPECT_EQ(porter_stem("as"), "as");
  EXPECT_EQ(porter_stem("y"), "y");
  EXPECT_EQ(porter_stem(std::string(100000, 'y')).size(), 100000u);
}

TEST(Porter, EqualsNltkOnRecordedWords) {
  std::ifstream file(PIPELINE_SOURCE_DIR "/tests/scores/rouge/fixtures/stems.txt");
  std::string word, stem;
  int words = 0;
  while (file >> word >> stem) {
    EXPECT_EQ(porter_stem(word), stem) << "of " << word;
    ++words;
  }
  EXPECT_GT(words, 2000);
}

}  // namespace
}  // namespace pipeline::rouge
