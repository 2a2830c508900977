#include "plugins/tasks/protein/task/scores.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>

namespace pipeline::protein {

void Scores::Sums::add(const Sums& other) {
  count += other.count;
  nll += other.nll;
  correct += other.correct;
  top3 += other.top3;
  background_nll += other.background_nll;
  majority += other.majority;
}

void Scores::add(const Target& target, LogProbabilities predicted) {
  const float right = predicted[target.amino_acid];
  // Of equal ones the first is taken for the likelier, or a model that knows nothing would seem to be right.
  const auto before = std::count_if(predicted.begin(), predicted.begin() + target.amino_acid,
                                    [&](float p) { return p >= right; });
  const auto behind = std::count_if(predicted.begin() + target.amino_acid, predicted.end(),
                                    [&](float p) { return p > right; });
  const auto best =
      static_cast<uint8_t>(std::max_element(predicted.begin(), predicted.end()) - predicted.begin());
  const auto majority =
      static_cast<uint8_t>(std::max_element(background_.begin(), background_.end()) - background_.begin());
  const Sums one{.count = 1,
                 .nll = -static_cast<double>(right),
                 .correct = best == target.amino_acid ? 1.0 : 0.0,
                 .top3 = before + behind < 3 ? 1.0 : 0.0,
                 .background_nll = -std::log(background_[target.amino_acid]),
                 .majority = majority == target.amino_acid ? 1.0 : 0.0};
  all_.add(one);
  clusters_[target.cluster].add(one);
  confusion_[{target.amino_acid, best}] += 1;
}

void Scores::send(const EvaluationSink& sink, bool details) const {
  sink.value("loss", all_.nll, all_.count);
  sink.value("accuracy", all_.correct, all_.count);
  sink.value("top3", all_.top3, all_.count);
  sink.value("majority_accuracy", all_.majority, all_.count);
  sink.value("background_loss", all_.background_nll, all_.count);
  if (!details) return;
  if (fold_)
    sink.value("fold/" + std::to_string(fold_->number) + "/" + std::to_string(fold_->count), all_.count, 1);
  for (const auto& [cluster, sums] : clusters_) {
    char group[32];
    std::snprintf(group, sizeof group, "%016" PRIx64, cluster);
    sink.value_of(group, "loss", sums.nll, sums.count);
    sink.value_of(group, "accuracy", sums.correct, sums.count);
    sink.value_of(group, "top3", sums.top3, sums.count);
    sink.value_of(group, "majority_accuracy", sums.majority, sums.count);
    sink.value_of(group, "background_loss", sums.background_nll, sums.count);
  }
  for (const auto& [pair, count] : confusion_)
    sink.value(std::string("confusion/") + letter_of(pair.first) + letter_of(pair.second), count, 1);
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

}  // namespace pipeline::protein
