// How predictions of masked residues are scored, and what is said about the scores.
#pragma once

#include <pipeline/task_types.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::tasks::protein {

// The log-probabilities of the twenty amino acids at one masked residue.
using LogProbabilities = std::span<const float, residues::kAminoAcidCount>;

struct Target {
  uint8_t amino_acid;  // the right one
  uint64_t cluster;    // a hash of its sequences
};

// What is added up over so many targets, and what each of these is called.
enum SumName : size_t { kLoss, kAccuracy, kTop3, kMajority, kBackground, kSumNames };
inline constexpr std::array<std::string_view, kSumNames> kSumTexts{"loss", "accuracy", "top3",
                                                                   "majority_accuracy", "background_loss"};
struct ScoreSums {
  double count = 0;
  std::array<double, kSumNames> of{};
};

// The fold that is held out, of how many.
struct Fold {
  int64_t number, count;
};

// Sums over the targets of a batch, beside two guesses that know no structure: always the amino acid that is
// the most frequent in the training data, and the training data's frequencies.
class Scores {
 public:
  // fold: that of the targets, for the report; none where they are of no fold.
  Scores(const proteins::Frequencies& background, std::optional<Fold> fold = {})
      : background_(background), fold_(fold) {}

  void add(const Target& target, LogProbabilities predicted);
  // `details`: also what report() needs.
  void send(const EvaluationSink& sink, bool details) const;

  static std::vector<Metric> metrics();

 private:
  const proteins::Frequencies& background_;
  const std::optional<Fold> fold_;
  ScoreSums all_;
  std::map<uint64_t, ScoreSums> clusters_;
  std::map<std::pair<uint8_t, uint8_t>, double> confusion_;  // (right, predicted)
};

// Reports the sums of a full evaluation, or of several added up: 95% intervals, the gains over both guesses
// with theirs, a table by amino acid, and the confusion matrix as table and picture. Of folds added up it
// says which are missing.
void report_scores(std::span<const EvaluationValue> values, const ReportSink& sink);

}  // namespace pipeline::tasks::protein
