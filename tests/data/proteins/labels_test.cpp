// Labels as tables and backbones have them.
#include "plugins/data/proteins/labels.hpp"
#include "plugins/data/residues/alphabet.hpp"

#include <cmath>

#include <gmock/gmock.h>

#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/residues/residue.hpp"
#include "tests/data/proteins/made_up_chains.hpp"

namespace pipeline::proteins {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// One sample of so many residues, whose label column has this text.
class OneSample : public Samples {
 public:
  OneSample(uint32_t residues, std::optional<std::string> text)
      : residues_(residues), text_(std::move(text)) {}
  uint64_t size() const override { return 1; }
  const char* noun() const override { return "sequence"; }
  std::string fingerprint() const override { return ""; }
  Size size_of(uint64_t) const override { return {.residues = residues_, .known = residues_, .chains = 1}; }
  Sample sample(uint64_t) const override {
    return {.codes = std::vector<uint8_t>(residues_, residues::kUnknown),
            .chains = std::vector<int64_t>(residues_),
            .copy_of = {}};
  }
  std::string name(uint64_t) const override { return "one"; }
  std::string file(uint64_t) const override { return "one"; }
  std::vector<std::string> chain_names(uint64_t) const override { return {""}; }
  std::vector<uint64_t> keys(uint64_t) const override { return {0}; }
  void each_chain(uint64_t, const std::function<void(std::string_view)>&) const override {}
  Words words(uint64_t) const override { return {}; }
  std::optional<std::string> label(uint64_t) const override { return text_; }

 private:
  uint32_t residues_;
  std::optional<std::string> text_;
};

SampleLabels read(const char* objective, const char* per, std::optional<std::string> text,
                  uint32_t residues = 4, std::vector<std::string> classes = {}) {
  LabelConfig options;
  options.per = per;
  options.classes = std::move(classes);
  return Labels(objective, options).of(OneSample(residues, std::move(text)), 0);
}

TEST(LabelsOfChains, AreNumbersOrWords) {
  EXPECT_THAT(read(residues::kRegression, "chain", " -1.5e1 ").numbers, ElementsAre(-15));
  EXPECT_THAT(read(residues::kRegression, "chain", "+3").places, ElementsAre(0));
  EXPECT_THAT(read(residues::kClassification, "chain", "cell membrane, inner").classes,
              ElementsAre("cell membrane, inner"));
  for (const auto& none : {std::optional<std::string>(), std::optional<std::string>(""),
                           std::optional<std::string>("?"), std::optional<std::string>(" ")})
    EXPECT_EQ(read(residues::kRegression, "chain", none).problem, "nothing in column \"label\"");
  for (const char* wrong : {"1,5", "high", "1e999", "inf", "0x10 ", "3 K"})
    EXPECT_THAT(read(residues::kRegression, "chain", wrong).problem, HasSubstr("is no number")) << wrong;
}

TEST(LabelsOfResidues, AreLettersOrAreApart) {
  const SampleLabels letters = read(residues::kClassification, "residue", "H?E-");
  EXPECT_THAT(letters.places, ElementsAre(0, 2, 3));
  EXPECT_THAT(letters.classes, ElementsAre("H", "E", "-"));
  EXPECT_THAT(read(residues::kClassification, "residue", "in, out,?,in").classes,
              ElementsAre("in", "out", "in"));
  const SampleLabels numbers =
      read(residues::kRegression, "residue", "0.5,nan,,2");  // as a list of numbers is read
  EXPECT_THAT(numbers.places, ElementsAre(0, 3));
  EXPECT_THAT(numbers.numbers, ElementsAre(0.5, 2));
  EXPECT_THAT(read(residues::kRegression, "residue", "1 2 3 4").numbers, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(residues::kClassification, "residue", "['H', None, \"E\", '']").classes,
              ElementsAre("H", "E"))
      << "as pandas writes a list into CSV";
  EXPECT_THAT(read(residues::kClassification, "residue", "[0  1 -100\n 1]").places, ElementsAre(0, 1, 3))
      << "or NumPy's";
  EXPECT_THAT(read(residues::kRegression, "residue", "[0.5, nan, 1, 2]").numbers, ElementsAre(0.5, 1, 2));
  EXPECT_THAT(read(residues::kClassification, "residue", "[H-]").classes, ElementsAre("[", "H", "-", "]"));
  EXPECT_EQ(read(residues::kClassification, "residue", "HHH").problem, "3 labels for 4 residues");
  EXPECT_EQ(read(residues::kRegression, "residue", "1,2,3,4,5").problem, "5 labels for 4 residues");
  EXPECT_EQ(read(residues::kClassification, "residue", "????").problem, "nothing in column \"label\"");
}

// What pandas writes where a column becomes text, and torch's ignore index: told, as one may be meant.
TEST(Labels, WordsForNoneAreNone) {
  for (const char* word : {"nan", "NaN", "None", "NA", "<NA>", "null", "NULL", "N/A", "-nan"}) {
    for (const char* objective : {residues::kRegression, residues::kClassification}) {
      const SampleLabels chain = read(objective, "chain", word);
      EXPECT_EQ(chain.problem,
                "\"" + std::string(word) + "\" in column \"label\", which stands for no label");
      EXPECT_THAT(chain.passed_over, ElementsAre(Pair(word, 1))) << objective;
    }
    const SampleLabels residues =
        read(residues::kClassification, "residue", std::string("a,") + word + ",b," + word);
    EXPECT_THAT(residues.classes, ElementsAre("a", "b"));
    EXPECT_THAT(residues.places, ElementsAre(0, 2));
    EXPECT_THAT(residues.passed_over, ElementsAre(Pair(word, 2)));
  }
  for (const char* index : {"-100", "-100.0", "-1e2"}) {
    EXPECT_THAT(read(residues::kClassification, "chain", index).problem,
                HasSubstr("which stands for no label"));
    EXPECT_THAT(read(residues::kClassification, "residue", std::string("0,1,") + index + ",0").classes,
                ElementsAre("0", "1", "0"));
    EXPECT_THAT(read(residues::kRegression, "chain", index).numbers, ElementsAre(-100))
        << "a number like others";
  }
  for (const char* word : {"NAN", "Nan", "-NAN", "+nan"}) {
    EXPECT_THAT(read(residues::kRegression, "chain", word).passed_over, ElementsAre(Pair(word, 1)));
    EXPECT_THAT(read(residues::kClassification, "chain", word).classes, ElementsAre(word)) << "may be a name";
  }
  EXPECT_THAT(read(residues::kClassification, "chain", "nan", 4, {"yes", "nan"}).classes, ElementsAre("nan"));
  EXPECT_THAT(read(residues::kClassification, "residue", "-100,1,nan,1", 4, {"1", "-100"}).classes,
              ElementsAre("-100", "1", "1"));
  EXPECT_THAT(read(residues::kClassification, "chain", "none").classes, ElementsAre("none"));
  records::LabelCounts counts;
  add(read(residues::kClassification, "residue", "nan,1,-100,nan"), false, counts);
  add(read(residues::kRegression, "residue", "-100,1,-100.0,nan"), true, counts);
  EXPECT_THAT(counts.passed_over(), ElementsAre(Pair("-100", 1), Pair("nan", 3)));
  EXPECT_EQ(counts.ignore_indices(), 2u);
  EXPECT_THAT(read(residues::kRegression, "residue", "0.50,nan,5000000.10,1").texts,
              ElementsAre("0.50", "5000000.10", "1"))
      << "as they are written";
}

TEST(LabelsOfABackbone, NeedOne) {
  EXPECT_EQ(read(residues::kContacts, "chain", {}, 20).problem, "no backbone");
  LabelConfig options;
  options.per = "residue", options.source = "secondary_structure";
  EXPECT_EQ(Labels(residues::kClassification, options).of(OneSample(20, {}), 0).problem, "no backbone");
}

TEST(LabelScale, IsThatOfTheTrainingData) {
  records::LabelCounts counts;
  SampleLabels numbers;
  numbers.places = {0, 1, 2};
  numbers.numbers = {2, 4, 9};
  add(numbers, true, counts);
  numbers.numbers = {1e6, 0, 0};
  add(numbers, false, counts);
  const records::LabelScale scale = counts.scale({});
  EXPECT_DOUBLE_EQ(scale.mean, 5);
  EXPECT_DOUBLE_EQ(scale.deviation, std::sqrt((9.0 + 1 + 16) / 2));

  records::LabelCounts words;
  SampleLabels classes;
  classes.classes = {"b", "a", "b"};
  add(classes, true, words);
  classes.classes = {"c", "c", "c", "c"};
  add(classes, false, words);
  EXPECT_THAT(words.scale({}).classes, ElementsAre("a", "b", "c"));
  EXPECT_EQ(words.scale({}).usual, "b") << "what is only held out is not known";
  EXPECT_THAT(words.scale({"c", "b", "a"}).classes, ElementsAre("c", "b", "a"));
  EXPECT_EQ(words.scale({}).number_of("c"), 2u);
  EXPECT_EQ(words.scale({}).number_of("d"), std::nullopt);
  EXPECT_THAT(records::LabelCounts().scale({}).classes, IsEmpty());

  records::LabelCounts digits;
  for (const char* digit : {"10", "9", "2"}) digits.add(digit, true);
  EXPECT_THAT(digits.scale({}).classes, ElementsAre("2", "9", "10")) << "in the order of the numbers";
}

// What weights were trained with: content keys, and sets of them.

TEST(ContentKey, IsWhatAChainIsAndNotWhatItIsCalled) {
  const auto chain = made_up_chain(30, 1);
  auto renamed = chain, mutant = chain, moved = chain, shorter = chain;
  for (residues::Residue& residue : renamed) residue.number += 100, residue.insertion = 'B';
  mutant[7].amino_acid = static_cast<uint8_t>((mutant[7].amino_acid + 1) % residues::kAminoAcidCount);
  moved[7].ca.x += 0.001f;
  shorter.pop_back();
  EXPECT_EQ(content_key(renamed), content_key(chain));
  for (const auto& other : {mutant, moved, shorter}) EXPECT_NE(content_key(other), content_key(chain));
}

TEST(ContentKey, OfOneChainIsThatOfTheChain) {
  const std::vector<uint64_t> one{7}, two{7, 8}, swapped{8, 7};
  EXPECT_EQ(content_key(one), 7u);
  EXPECT_NE(content_key(two), content_key(one));
  EXPECT_NE(content_key(two), content_key(swapped));
}

TEST(ContentKey, IsTheSameInEveryVersion) {
  // Checkpoints hold content keys: with another hash they would not know what they have learnt from.
  std::vector<residues::Residue> chain(2);
  chain[0].amino_acid = 3;
  chain[1].amino_acid = 19;
  chain[1].ca = {1.5f, -2.25f, 8};
  EXPECT_EQ(content_key(chain), 0x59fa968c7635c344u);
}

TEST(ContentKey, OfASequenceIsThatOfAChainWithoutCoordinates) {
  std::vector<residues::Residue> chain(3);
  chain[0].amino_acid = 3;
  chain[1].amino_acid = 19;
  EXPECT_EQ(content_key(std::vector<uint8_t>{3, 19, residues::kUnknown}), content_key(chain));
}

TEST(Learnt, AddsUp) {
  const auto keys = [](std::vector<uint64_t> all) { return ContentKeys(all); };
  Learnt learnt{.training = keys({1, 5}), .validation = keys({9})};
  learnt.add({.training = keys({3, 5}), .validation = {}});
  EXPECT_THAT(learnt.training.keys(), ElementsAre(1, 3, 5));
  EXPECT_THAT(learnt.validation.keys(), ElementsAre(9));
  const std::vector<uint64_t> some{2, 3}, none{2, 4};
  EXPECT_TRUE(learnt.training.has_any(some));
  EXPECT_FALSE(learnt.training.has_any(none));
}

TEST(ContentKeys, OfMillionsKeepsTheSmallest) {
  ContentKeys all;
  std::vector<uint64_t> some;
  for (uint64_t i = 0; i < 2 * ContentKeys::kMost; ++i) {
    some.push_back(7 * (2 * ContentKeys::kMost - 1 - i));
    if (some.size() == 1000) all.add(std::exchange(some, {}));
  }
  all.add(some);
  EXPECT_EQ(all.keys().size(), ContentKeys::kMost);
  EXPECT_EQ(all.bound(), 7 * (ContentKeys::kMost - 1));
  const std::vector<uint64_t> kept{7 * 5}, gone{7 * ContentKeys::kMost, UINT64_MAX};
  EXPECT_TRUE(all.has_any(kept));
  EXPECT_FALSE(all.has_any(gone)) << "it was there, and nobody knows: it is above the bound";
  // What is added to a set with another bound is known up to the smaller one.
  ContentKeys few(std::vector<uint64_t>{3, UINT64_MAX});
  few.add(all);
  EXPECT_EQ(few.bound(), 7 * (ContentKeys::kMost - 2)) << "3 is one more, so the largest went";
  EXPECT_FALSE(few.has_any(gone));
}

}  // namespace
}  // namespace pipeline::proteins
