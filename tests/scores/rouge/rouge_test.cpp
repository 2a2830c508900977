#include <algorithm>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <test_paths.hpp>

#include "plugins/scores/rouge/rouge.hpp"

namespace pipeline::rouge {
namespace {

using Tokens = std::vector<std::string>;
using Numbers = std::vector<uint32_t>;

Score one(const char* type, bool use_stemmer, std::string_view target, std::string_view prediction) {
  return Scorer({type}, use_stemmer).score(target, prediction).at(0);
}

void expect_score(const Score& score, double precision, double recall, double f) {
  EXPECT_NEAR(score.precision, precision, 1e-6);
  EXPECT_NEAR(score.recall, recall, 1e-6);
  EXPECT_NEAR(score.f, f, 1e-6);
}

TEST(RougeTokens, AreRunsOfAsciiLettersAndDigitsInLowerCase) {
  EXPECT_EQ(tokenize("The DOG's foo_bar 3.14", false), (Tokens{"the", "dog", "s", "foo", "bar", "3", "14"}));
  EXPECT_EQ(tokenize("café naïve 日本", false), (Tokens{"caf", "na", "ve"}));
  EXPECT_EQ(tokenize("", false), Tokens{});
  EXPECT_EQ(tokenize(std::string_view("a\0b", 3), false), (Tokens{"a", "b"}));
  EXPECT_EQ(tokenize("broken\xff\xc3", false), Tokens{"broken"});
}

TEST(RougeTokens, FollowUnicodeWhereALowerCaseLetterIsAscii) {
  EXPECT_EQ(tokenize("\u212aelvin wor\u212a", false), (Tokens{"kelvin", "work"}));
  EXPECT_EQ(tokenize("\u0130stanbul", false), (Tokens{"i", "stanbul"}));
}

TEST(RougeTokens, OnlyWordsOfMoreThanThreeLettersAreStemmed) {
  EXPECT_EQ(tokenize("was cats running", true), (Tokens{"was", "cat", "run"}));
}

TEST(Rouge, GoldenValuesOfOneLine) {
  const auto* target = "The quick brown fox jumps over the lazy dog";
  const auto* prediction = "The quick brown dog jumps on the log.";
  for (const bool use_stemmer : {false, true}) {
    expect_score(one("rouge1", use_stemmer, target, prediction), .75, .666667, .705882);
    expect_score(one("rouge2", use_stemmer, target, prediction), .285714, .25, .266667);
    expect_score(one("rougeL", use_stemmer, target, prediction), .625, .555556, .588235);
    expect_score(one("rougeLsum", use_stemmer, target, prediction), .625, .555556, .588235);
  }
}

TEST(Rouge, StemmingMakesInflectionsEqual) {
  const auto *target = "police killed the gunman", *prediction = "police kill the gunman";
  expect_score(one("rouge1", false, target, prediction), .75, .75, .75);
  expect_score(one("rouge1", true, target, prediction), 1, 1, 1);
  expect_score(one("rouge2", false, target, prediction), .333333, .333333, .333333);
  expect_score(one("rouge2", true, target, prediction), 1, 1, 1);
}

TEST(Rouge, LsumComparesLineByLine) {
  const auto *target = "First sentence.\nSecond Sentence.", *prediction = "Second sentence.\nFirst Sentence.";
  expect_score(one("rouge2", false, target, prediction), .666667, .666667, .666667);
  expect_score(one("rougeL", false, target, prediction), .5, .5, .5);
  expect_score(one("rougeLsum", false, target, prediction), 1, 1, 1);
  expect_score(one("rougeL", false, "w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"), .4, .8, .533333);
  expect_score(one("rougeLsum", false, "w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"), .4, .8, .533333);
}

TEST(Rouge, RepeatedWordsCountAsOftenAsBothTextsHaveThem) {
  expect_score(one("rouge1", false, "the the cat", "the the the the"), .5, .666667, .571429);
  expect_score(one("rougeLsum", false, "the cat\nthe dog", "the"), 1, .25, .4);
}

TEST(Rouge, EmptyTextsScoreZero) {
  for (const auto* type : {"rouge1", "rouge9", "rougeL", "rougeLsum"}) {
    expect_score(one(type, true, "", "words here"), 0, 0, 0);
    expect_score(one(type, true, "words here", "\n\n"), 0, 0, 0);
    expect_score(one(type, true, "", ""), 0, 0, 0);
  }
}

TEST(Rouge, UnknownTypesAreRefusedByName) {
  for (const auto* type : {"rouge0", "rouge10", "rougel", "bleu", ""}) {
    EXPECT_THROW(Scorer({type}, false), std::invalid_argument) << type;
  }
}

// Recorded from rouge_score 0.1.2 by tests/parity/record_rouge.py.
TEST(Rouge, EqualsRougeScoreOnRecordedTexts) {
  const std::vector<std::string> types = {"rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"};
  const Scorer scorers[] = {Scorer(types, false), Scorer(types, true)};
  std::ifstream file(PIPELINE_SOURCE_DIR "/tests/scores/rouge/fixtures/rouge.jsonl");
  std::string line;
  int pairs = 0;
  while (std::getline(file, line)) {
    const auto record = nlohmann::json::parse(line);
    SCOPED_TRACE(line.substr(0, 200));
    for (size_t stemming = 0; stemming < 2; ++stemming) {
      const auto scores = scorers[stemming].score(record["target"].get<std::string>(),
                                                  record["prediction"].get<std::string>());
      for (size_t t = 0; t < types.size(); ++t) {
        const auto& expected = record["scores"][stemming][t];
        expect_score(scores[t], expected[0], expected[1], expected[2]);
      }
    }
    ++pairs;
  }
  EXPECT_GT(pairs, 300);
}

// The textbook table, and the way back through it that ROUGE-Lsum defines.
struct PlainTable {
  PlainTable(const Numbers& a, const Numbers& b) : t(a.size() + 1, std::vector<size_t>(b.size() + 1)) {
    for (size_t i = 1; i <= a.size(); ++i) {
      for (size_t j = 1; j <= b.size(); ++j) {
        t[i][j] = a[i - 1] == b[j - 1] ? t[i - 1][j - 1] + 1 : std::max(t[i - 1][j], t[i][j - 1]);
      }
    }
    for (size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
      if (a[i - 1] == b[j - 1]) {
        positions.insert(positions.begin(), --i);
        --j;
      } else if (t[i][j - 1] > t[i - 1][j]) {
        --j;
      } else {
        --i;
      }
    }
  }
  std::vector<std::vector<size_t>> t;
  std::vector<size_t> positions;
};

TEST(LcsTable, EqualsThePlainTableInEveryCell) {
  std::mt19937 random(7);
  // Lengths around the 64 bits of a word matter most; few different tokens give many ties.
  const size_t sizes[] = {0, 1, 2, 17, 63, 64, 65, 127, 128, 129, 200};
  for (const size_t n : sizes) {
    for (const size_t m : sizes) {
      for (const uint32_t alphabet : {1u, 2u, 5u, 60u}) {
        Numbers a(n), b(m);
        for (auto& x : a) x = random() % alphabet;
        for (auto& x : b) x = random() % (alphabet + 1);
        const LcsTable table(a, b);
        const PlainTable plain(a, b);
        for (size_t i = 0; i <= n; i += 1 + n / 9) {
          for (size_t j = 0; j <= m; ++j) ASSERT_EQ(table.length(i, j), plain.t[i][j]) << n << " x " << m;
        }
        ASSERT_EQ(table.length(), plain.t[n][m]);
        ASSERT_EQ(table.positions(), plain.positions) << n << " x " << m << " of " << alphabet;
      }
    }
  }
}

TEST(LcsTable, TakesATextOfManyThousandTokens) {
  Numbers a(20000), b(20000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint32_t>(i), b[i] = static_cast<uint32_t>(i ^ 1);
  EXPECT_EQ(LcsTable(a, b).length(), a.size() / 2);
}

TEST(LeadWords, TakesTheFirstWords) {
  EXPECT_EQ(lead_words("one two three four", 2), "one two");
  EXPECT_EQ(lead_words("one two", 12), "one two");
  EXPECT_EQ(lead_words("one two", 0), "");
  EXPECT_EQ(lead_words("", 3), "");
}

TEST(LeadWords, JoinsLinesAndRunsOfSpaceByOneSpace) {
  EXPECT_EQ(lead_words("  one\n\n * two\tthree\r\nfour", 4), "one * two three");
}

TEST(LeadWords, KnowsUnicodeSpacesAndKeepsOtherScriptsWhole) {
  EXPECT_EQ(lead_words("один\u00a0два\u3000三\u2009four", 3), "один два 三");
  EXPECT_EQ(lead_words("日本語のテキスト", 1), "日本語のテキスト");
}

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
