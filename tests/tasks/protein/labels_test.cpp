// Labels as tables and backbones have them.
#include "plugins/tasks/protein/data/labels.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipeline::protein {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One sample of so many residues, whose column says this.
class OneSample : public Samples {
 public:
  OneSample(uint32_t residues, std::optional<std::string> text)
      : residues_(residues), text_(std::move(text)) {}
  uint64_t size() const override { return 1; }
  const char* noun() const override { return "sequence"; }
  std::string fingerprint() const override { return ""; }
  Size size_of(uint64_t) const override { return {.residues = residues_, .known = residues_, .chains = 1}; }
  Sample sample(uint64_t) const override {
    return {.residues = std::vector<Residue>(residues_),
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
                  uint32_t residues = 4) {
  LabelConfig options;
  options.per = per;
  return Labels(objective, options).of(OneSample(residues, std::move(text)), 0);
}

TEST(LabelsOfChains, AreNumbersOrWords) {
  EXPECT_THAT(read(kRegression, "chain", " -1.5e1 ").numbers, ElementsAre(-15));
  EXPECT_THAT(read(kRegression, "chain", "+3").places, ElementsAre(0));
  EXPECT_THAT(read(kClassification, "chain", "cell membrane, inner").classes,
              ElementsAre("cell membrane, inner"));
  for (const auto& none : {std::optional<std::string>(), std::optional<std::string>(""),
                           std::optional<std::string>("?"), std::optional<std::string>(" ")})
    EXPECT_EQ(read(kRegression, "chain", none).problem, "nothing in column \"label\"");
  EXPECT_EQ(read(kRegression, "chain", "nan").problem, "nothing in column \"label\"");
  for (const char* wrong : {"1,5", "high", "1e999", "inf", "0x10 ", "3 K"})
    EXPECT_THAT(read(kRegression, "chain", wrong).problem, HasSubstr("is no number")) << wrong;
}

TEST(LabelsOfResidues, AreLettersOrAreApart) {
  const SampleLabels letters = read(kClassification, "residue", "H?E-");
  EXPECT_THAT(letters.places, ElementsAre(0, 2, 3));
  EXPECT_THAT(letters.classes, ElementsAre("H", "E", "-"));
  EXPECT_THAT(read(kClassification, "residue", "in, out,?,in").classes, ElementsAre("in", "out", "in"));
  const SampleLabels numbers = read(kRegression, "residue", "0.5,nan,,2");  // as a list of numbers is read
  EXPECT_THAT(numbers.places, ElementsAre(0, 3));
  EXPECT_THAT(numbers.numbers, ElementsAre(0.5, 2));
  EXPECT_THAT(read(kRegression, "residue", "1 2 3 4").numbers, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(read(kClassification, "residue", "HHH").problem, "3 labels for 4 residues");
  EXPECT_EQ(read(kRegression, "residue", "1,2,3,4,5").problem, "5 labels for 4 residues");
  EXPECT_EQ(read(kClassification, "residue", "????").problem, "nothing in column \"label\"");
}

TEST(LabelsOfABackbone, NeedOne) {
  EXPECT_EQ(read(kContacts, "chain", {}, 20).problem, "no backbone");
  LabelConfig options;
  options.per = "residue", options.source = "secondary_structure";
  EXPECT_EQ(Labels(kClassification, options).of(OneSample(20, {}), 0).problem, "no backbone");
}

TEST(LabelScale, IsThatOfTheTrainingData) {
  LabelCounts counts;
  SampleLabels numbers;
  numbers.places = {0, 1, 2};
  numbers.numbers = {2, 4, 9};
  counts.add(numbers, true);
  numbers.numbers = {1e6, 0, 0};
  counts.add(numbers, false);
  const LabelScale scale = counts.scale({});
  EXPECT_DOUBLE_EQ(scale.mean, 5);
  EXPECT_DOUBLE_EQ(scale.deviation, std::sqrt((9.0 + 1 + 16) / 2));

  LabelCounts words;
  SampleLabels classes;
  classes.classes = {"b", "a", "b"};
  words.add(classes, true);
  classes.classes = {"c", "c", "c", "c"};
  words.add(classes, false);
  EXPECT_THAT(words.scale({}).classes, ElementsAre("a", "b", "c"));
  EXPECT_EQ(words.scale({}).usual, "b") << "what is only held out is not known";
  EXPECT_THAT(words.scale({"c", "b", "a"}).classes, ElementsAre("c", "b", "a"));
  EXPECT_EQ(words.scale({}).number_of("c"), 2u);
  EXPECT_EQ(words.scale({}).number_of("d"), std::nullopt);
  EXPECT_THAT(LabelCounts().scale({}).classes, IsEmpty());
}

}  // namespace
}  // namespace pipeline::protein
