#include "plugins/tasks/protein/scores.hpp"
#include "plugins/data/residues/alphabet.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <string>

namespace pipeline::tasks::protein {
namespace {

using ::testing::HasSubstr;

// Collects what is sent through the ABI.
struct Collected {
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> groups;  // by group and name
  std::map<std::string, std::pair<double, double>> values;                          // of the whole, by name
  std::map<std::string, double> figures;
  std::map<std::string, std::string> files;
  std::string text;
};

pl_evaluation_sink evaluation_sink(Collected& to) {
  pl_evaluation_sink sink{};
  sink.struct_size = sizeof sink;
  sink.user = &to;
  sink.value = [](void* user, pl_str group, pl_str name, double sum, double weight) -> pl_error* {
    auto& collected = *static_cast<Collected*>(user);
    const std::string of(view(group)), what(view(name));
    auto& value = of.empty() ? collected.values[what] : collected.groups[{of, what}];
    value.first += sum;
    value.second += weight;
    return nullptr;
  };
  return sink;
}

pl_report_sink report_sink(Collected& to) {
  pl_report_sink sink{};
  sink.struct_size = sizeof sink;
  sink.user = &to;
  sink.figure = [](void* user, pl_str name, double value, uint32_t) -> pl_error* {
    static_cast<Collected*>(user)->figures[std::string(view(name))] = value;
    return nullptr;
  };
  sink.text = [](void* user, pl_str lines) -> pl_error* {
    static_cast<Collected*>(user)->text += std::string(view(lines)) + "\n";
    return nullptr;
  };
  sink.file = [](void* user, pl_str name, const void* bytes, uint64_t size) -> pl_error* {
    static_cast<Collected*>(user)->files[std::string(view(name))] =
        std::string(static_cast<const char*>(bytes), size);
    return nullptr;
  };
  return sink;
}

// All the probability but a little on one amino acid.
std::array<float, residues::kAminoAcidCount> sure_of(uint8_t amino_acid) {
  std::array<float, residues::kAminoAcidCount> log_p;
  log_p.fill(std::log(0.01f));
  log_p[amino_acid] = std::log(0.81f);
  return log_p;
}

proteins::Frequencies mostly_leucine() {
  proteins::Frequencies frequencies;
  frequencies.fill(0.04);
  frequencies[residues::kAminoAcids.find('L')] = 0.24;
  return frequencies;
}

Collected send(const Scores& scores, bool details = true) {
  Collected collected;
  pl_evaluate_args args{};
  args.struct_size = sizeof args;
  args.purpose = PL_PURPOSE_EVALUATE;
  const pl_evaluation_sink sink = evaluation_sink(collected);
  scores.send(EvaluationSink(&sink, args), details);
  return collected;
}

Collected report(const Collected& from) {
  Collected collected;
  std::vector<EvaluationValue> values;
  for (const auto& [name, sums] : from.values) values.push_back({"", name, sums.first, sums.second});
  for (const auto& [name, sums] : from.groups)
    values.push_back({name.first, name.second, sums.first, sums.second});
  const pl_report_sink sink = report_sink(collected);
  report_scores(values, ReportSink(&sink));
  return collected;
}

TEST(Scores, CountHitsAndTheTwoGuesses) {
  const proteins::Frequencies background = mostly_leucine();
  Scores scores(background);
  const auto letter = [](char c) { return static_cast<uint8_t>(residues::kAminoAcids.find(c)); };
  scores.add({letter('A'), 0}, sure_of(letter('A')));
  scores.add({letter('L'), 0}, sure_of(letter('W')));
  const Collected sent = send(scores);
  EXPECT_DOUBLE_EQ(sent.values.at("accuracy").first, 1);
  EXPECT_DOUBLE_EQ(sent.values.at("accuracy").second, 2);
  EXPECT_NEAR(sent.values.at("loss").first, -std::log(0.81) - std::log(0.01), 1e-5);
  EXPECT_DOUBLE_EQ(sent.values.at("top3").first, 1) << "A is the first; L is one of nineteen with the same";
  EXPECT_DOUBLE_EQ(sent.values.at("majority_accuracy").first, 1);
  EXPECT_NEAR(sent.values.at("background_loss").first, -std::log(0.04) - std::log(0.24), 1e-12);
  EXPECT_DOUBLE_EQ(sent.values.at("confusion/AA").first, 1);
  EXPECT_DOUBLE_EQ(sent.values.at("confusion/LW").first, 1);
}

TEST(Scores, DetailsAreForTheReportAlone) {
  const proteins::Frequencies background = mostly_leucine();
  Scores scores(background);
  scores.add({3, 7}, sure_of(3));
  const Collected brief = send(scores, false);
  EXPECT_TRUE(brief.groups.empty());
  EXPECT_FALSE(brief.values.empty());
  for (const auto& [name, sums] : brief.values) EXPECT_FALSE(name.starts_with("confusion")) << name;
}

TEST(Scores, TheThreeLikeliestCount) {
  std::array<float, residues::kAminoAcidCount> log_p{};
  for (size_t i = 0; i < log_p.size(); ++i)
    log_p[i] = -static_cast<float>(i);  // 0 is the likeliest, then 1, 2, ...
  const proteins::Frequencies background = mostly_leucine();
  for (const uint8_t right : {0, 1, 2, 3, 19}) {
    Scores scores(background);
    scores.add({right, 0}, log_p);
    EXPECT_EQ(send(scores).values.at("top3").first, right < 3 ? 1 : 0) << int{right};
    EXPECT_EQ(send(scores).values.at("accuracy").first, right < 1 ? 1 : 0) << int{right};
  }
}

// 30 clusters of 40 residues, of which `right` are predicted.
Collected evaluation(int right, const proteins::Frequencies& background = mostly_leucine()) {
  Scores scores(background);
  for (uint32_t cluster = 0; cluster < 30; ++cluster)
    for (int i = 0; i < 40; ++i) {
      const auto amino_acid =
          static_cast<uint8_t>((i + static_cast<int>(cluster)) % residues::kAminoAcidCount);
      scores.add({amino_acid, cluster}, sure_of(i < right + static_cast<int>(cluster % 3)
                                                    ? amino_acid
                                                    : static_cast<uint8_t>((amino_acid + 1) % 20)));
    }
  return send(scores);
}

TEST(Report, IntervalsHoldTheFigureAndAreAsWideAsTheClustersDiffer) {
  const Collected said = report(evaluation(20));
  const double accuracy = 21.0 / 40;
  EXPECT_LT(said.figures.at("accuracy_low"), accuracy);
  EXPECT_GT(said.figures.at("accuracy_high"), accuracy);
  // Clusters are at 20, 21 or 22 of 40: a deviation of 0.82/40, over 30 of them 0.0037, times 1.96 on both
  // sides.
  EXPECT_NEAR(said.figures.at("accuracy_high") - said.figures.at("accuracy_low"), 2 * 1.96 * 0.0037, 0.003);
  EXPECT_GT(said.figures.at("accuracy_gain_low"), 0);
  EXPECT_THAT(said.text, HasSubstr("better than both"));
}

TEST(Report, SaysWhereThereAreNoTrainingDataToGuessFrom) {
  EXPECT_THAT(report(evaluation(20)).text, HasSubstr("(training frequencies: "));
  proteins::Frequencies alike;
  alike.fill(1.0 / residues::kAminoAcidCount);
  const std::string text = report(evaluation(20, alike)).text;
  EXPECT_THAT(text, HasSubstr("  (always A: "));
  EXPECT_THAT(text, HasSubstr("  (no training data: all twenty alike: 20.000)"));
  EXPECT_THAT(text, HasSubstr("perplexity over all twenty alike "));
}

TEST(Report, SaysWhenTheModelIsNotBetterThanTheGuesses) {
  const Collected said = report(evaluation(0));
  EXPECT_LT(said.figures.at("accuracy_gain_low"), 0.05);
  EXPECT_THAT(said.text, HasSubstr(": worse than both"));
  EXPECT_THAT(report(evaluation(3)).text, HasSubstr("not certainly better than both"))
      << "better in one, worse in the other";
}

TEST(Report, IsTheSameFromTheSameValues) {
  const Collected values = evaluation(11), a = report(values), b = report(values);
  EXPECT_EQ(a.figures, b.figures);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.files, b.files);
}

TEST(Report, TheConfusionMatrixIsATableAndAPicture) {
  const Collected said = report(evaluation(20));
  EXPECT_THAT(said.files.at("confusion.csv"),
              testing::StartsWith("right,A,C,D,E,F,G,H,I,K,L,M,N,P,Q,R,S,T,V,W,Y\nA,"));
  EXPECT_THAT(said.files.at("confusion.svg"), testing::StartsWith("<svg "));
  EXPECT_THAT(said.files.at("confusion.svg"), testing::EndsWith("</svg>\n"));
  EXPECT_THAT(said.text, HasSubstr("amino acid"));
}

TEST(Report, OfOneClusterHasNoIntervalsAndNoVerdict) {
  const proteins::Frequencies background = mostly_leucine();
  Scores scores(background);
  for (uint8_t i = 0; i < residues::kAminoAcidCount; ++i) scores.add({i, 5}, sure_of(i));
  const Collected said = report(send(scores));
  EXPECT_FALSE(said.figures.contains("accuracy_low"));
  EXPECT_TRUE(said.figures.contains("accuracy_gain"));
  EXPECT_THAT(said.text, HasSubstr("too few for intervals"));
  EXPECT_THAT(said.text, HasSubstr("not certainly better than both"));
}

TEST(Report, FoldsThatAreMissingAreNamed) {
  const proteins::Frequencies background = mostly_leucine();
  const auto of_folds = [&](std::vector<int64_t> folds) {
    Collected together;
    for (const int64_t fold : folds) {
      Scores scores(background, Fold{fold, 4});
      scores.add({3, static_cast<uint64_t>(fold)}, sure_of(3));
      const Collected one = send(scores);
      for (const auto& [name, sums] : one.values) {
        together.values[name].first += sums.first;
        together.values[name].second += sums.second;
      }
      together.groups.insert(one.groups.begin(), one.groups.end());
    }
    return report(together).text;
  };
  EXPECT_THAT(of_folds({0, 3}), HasSubstr("of 4 folds, fold 1, 2 was not evaluated"));
  EXPECT_THAT(of_folds({0, 1, 2, 3}), testing::Not(HasSubstr("not evaluated")));
  EXPECT_THAT(of_folds({2}), testing::Not(HasSubstr("not evaluated"))) << "one fold is no sum of folds";
}

TEST(Report, OfNothingSaysNothing) { EXPECT_TRUE(report({}).figures.empty()); }

}  // namespace
}  // namespace pipeline::tasks::protein
