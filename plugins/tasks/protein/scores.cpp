#include "plugins/tasks/protein/scores.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::tasks::protein {

void Scores::add(const Target& target, LogProbabilities predicted) {
  const float right = predicted[target.amino_acid];
  // Of equal ones the first is taken for the likelier, or a model that knows nothing would seem to be right;
  // and so would one that computes NaN.
  const auto before = std::count_if(predicted.begin(), predicted.begin() + target.amino_acid,
                                    [&](float p) { return !(p < right); });
  const auto behind = std::count_if(predicted.begin() + target.amino_acid, predicted.end(),
                                    [&](float p) { return !(p <= right); });
  const auto best =
      static_cast<uint8_t>(std::max_element(predicted.begin(), predicted.end()) - predicted.begin());
  const auto majority =
      static_cast<uint8_t>(std::max_element(background_.begin(), background_.end()) - background_.begin());
  const std::array<double, kSumNames> one{
      -static_cast<double>(right), best == target.amino_acid ? 1.0 : 0.0, before + behind < 3 ? 1.0 : 0.0,
      majority == target.amino_acid ? 1.0 : 0.0, -std::log(background_[target.amino_acid])};
  for (ScoreSums* const sums : {&all_, &clusters_[target.cluster]}) {
    sums->count += 1;
    for (size_t name = 0; name < kSumNames; ++name) sums->of[name] += one[name];
  }
  confusion_[{target.amino_acid, best}] += 1;
}

void Scores::send(const EvaluationSink& sink, bool details) const {
  const auto send_sums = [&](std::string_view group, const ScoreSums& sums) {
    for (size_t name = 0; name < kSumNames; ++name)
      sink.value_of(group, kSumTexts[name], sums.of[name], sums.count);
  };
  send_sums("", all_);
  if (!details) return;
  if (fold_)
    sink.value("fold/" + std::to_string(fold_->number) + "/" + std::to_string(fold_->count), all_.count, 1);
  for (const auto& [cluster, sums] : clusters_) {
    char group[32];
    std::snprintf(group, sizeof group, "%016" PRIx64, cluster);
    send_sums(group, sums);
  }
  for (const auto& [pair, count] : confusion_)
    sink.value(std::string("confusion/") + residues::letter_of(pair.first) + residues::letter_of(pair.second),
               count, 1);
}

std::vector<Metric> Scores::metrics() {
  return {{.name = "loss", .help = "cross-entropy per masked residue, in nats"},
          {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN},
          {.name = "accuracy",
           .help = "share of masked residues whose amino acid is predicted",
           .better = PL_BETTER_HIGHER},
          {.name = "top3",
           .help = "share whose amino acid is among the three likeliest",
           .better = PL_BETTER_HIGHER},
          {.name = "majority_accuracy",
           .help = "accuracy of always saying the most frequent amino acid",
           .better = PL_BETTER_HIGHER},
          {.name = "background_perplexity",
           .help = "perplexity of the training data's frequencies",
           .source = "background_loss",
           .aggregate = PL_AGGREGATE_EXP_MEAN}};
}

}  // namespace pipeline::tasks::protein
