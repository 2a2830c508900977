#include "plugins/tasks/protein/scores.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/intervals/interval.hpp"
#include "plugins/scores/labels/confusion.hpp"

namespace pipeline::tasks::protein {

void Scores::add(const Target& target, LogProbabilities predicted) {
  const float right = predicted[target.amino_acid];
  // Among equal ones the first is taken for the likelier, or a model that knows nothing would seem to be
  // right; and so would one that computes NaN.
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

namespace {

// What report() was given, put in order.
struct Values {
  std::map<std::string, ScoreSums, std::less<>> clusters;
  std::set<int> folds;
  int fold_count = 0;
  labels::Confusion confusion{residues::kAminoAcidCount};

  explicit Values(std::span<const EvaluationValue> values) {
    for (const EvaluationValue& value : values) {
      std::string_view name = value.name;
      const auto begins_with = [&](std::string_view prefix) {
        const bool yes = name.starts_with(prefix);
        if (yes) name.remove_prefix(prefix.size());
        return yes;
      };
      if (!value.group.empty()) {
        const auto sum = std::find(kSumTexts.begin(), kSumTexts.end(), name);
        ScoreSums& cluster = clusters[std::string(value.group)];
        cluster.of[static_cast<size_t>(sum - kSumTexts.begin())] = value.sum;
        cluster.count = value.weight;
      } else if (begins_with("confusion/")) {
        confusion.counts[residues::kAminoAcids.find(name[0]) * confusion.classes +
                         residues::kAminoAcids.find(name[1])] = value.sum;
      } else if (begins_with("fold/")) {
        folds.insert(std::stoi(std::string(name)));
        fold_count = std::max(fold_count, std::stoi(std::string(name.substr(name.find('/') + 1))));
      }
    }
  }
  double residues() const {
    double all = 0;
    for (const auto& [key, cluster] : clusters) all += cluster.count;
    return all;
  }
};

// A mean over residues of one sum, or of one less another; of losses its exponential may be what is looked
// at.
struct ScoreFigure {
  const char* name;
  SumName sum;
  std::optional<SumName> less;
  bool exponential;

  double shown(double mean) const { return exponential ? std::exp(mean) : mean; }
  double of(const ScoreSums& cluster) const { return cluster.of[sum] - (less ? cluster.of[*less] : 0); }
};
constexpr std::array kFigures{
    ScoreFigure{"accuracy", kAccuracy, {}, false}, ScoreFigure{"top3", kTop3, {}, false},
    ScoreFigure{"perplexity", kLoss, {}, true}, ScoreFigure{"accuracy_gain", kAccuracy, kMajority, false},
    ScoreFigure{"perplexity_ratio", kLoss, kBackground, true}};
constexpr ScoreFigure kMajorityAccuracy{"majority_accuracy", kMajority, {}, false},
    kBackgroundPerplexity{"background_perplexity", kBackground, {}, true};

struct Estimate {
  double value;
  std::optional<intervals::Interval> interval;
};

Estimate estimate(const ScoreFigure& figure, const Values& values) {
  std::vector<intervals::ClusterSum> parts;
  double sum = 0, weight = 0;
  for (const auto& [key, cluster] : values.clusters) {
    parts.push_back({figure.of(cluster), cluster.count});
    sum += parts.back().sum;
    weight += parts.back().weight;
  }
  std::optional<intervals::Interval> interval = intervals::interval_of_mean(parts);
  if (interval) interval = {figure.shown(interval->low), figure.shown(interval->high)};
  if (interval && !figure.exponential && !figure.less)
    interval = {std::max(interval->low, 0.0), std::min(interval->high, 1.0)};  // a share
  return {figure.shown(sum / weight), interval};
}

std::string right_aligned(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string shown(const Estimate& estimate) {
  return figures::decimal(estimate.value) + (estimate.interval
                                                 ? " [" + figures::decimal(estimate.interval->low) + ", " +
                                                       figures::decimal(estimate.interval->high) + "]"
                                                 : std::string());
}

// What both guesses are called.
struct Guesses {
  const char *accuracy, *perplexity, *accuracy_over, *perplexity_over;
};
constexpr Guesses kFromTrainingData{"most frequent amino acid", "training frequencies", "the most frequent",
                                    "the frequencies'"},
    kWithoutTrainingData{"always A", "no training data: all twenty alike", "always A", "all twenty alike"};

// Frequencies of no training data are the same for all (Dataset::frequencies).
const Guesses& guesses(const Values& values) {
  const double alike = std::log(static_cast<double>(residues::kAminoAcidCount));
  const bool is_uniform = std::ranges::all_of(values.clusters, [&](const auto& cluster) {
    const ScoreSums& sums = cluster.second;
    return std::abs(sums.of[kBackground] - sums.count * alike) <= 1e-9 * sums.count;
  });
  return is_uniform ? kWithoutTrainingData : kFromTrainingData;
}

// Figures with intervals, and lines that say how they stand to the guesses.
std::string figures(const Values& values, const ReportSink& sink) {
  std::vector<Estimate> all;
  for (const ScoreFigure& figure : kFigures) {
    const Estimate& one = all.emplace_back(estimate(figure, values));
    const std::string name = figure.name;
    const uint32_t better = figure.exponential ? PL_BETTER_LOWER : PL_BETTER_HIGHER;
    if (figure.less) sink.figure(name, one.value, better);
    if (!one.interval) continue;
    sink.figure(name + "_low", one.interval->low, better);
    sink.figure(name + "_high", one.interval->high, better);
  }
  const size_t clusters = values.clusters.size();
  std::string text = figures::decimal(values.residues(), 0) + " masked residues of " +
                     std::to_string(clusters) +
                     (clusters == 1 ? " cluster of similar sequences: too few for intervals"
                                    : " clusters of similar sequences; 95% intervals over these:");
  const Guesses& called = guesses(values);
  text += "\n  accuracy " + shown(all[0]) + "  (" + called.accuracy + ": " +
          figures::decimal(estimate(kMajorityAccuracy, values).value) + ")  top 3 " + shown(all[1]);
  text += "\n  perplexity " + shown(all[2]) + "  (" + called.perplexity + ": " +
          figures::decimal(estimate(kBackgroundPerplexity, values).value) + ")";
  const bool beats_both = all[3].interval && all[3].interval->low > 0 && all[4].interval->high < 1;
  const bool loses_to_both = all[3].interval && all[3].interval->high < 0 && all[4].interval->low > 1;
  text += std::string("\n  accuracy over ") + called.accuracy_over + " " + shown(all[3]) +
          "  perplexity over " + called.perplexity_over + " " + shown(all[4]) +
          (beats_both      ? ": better than both"
           : loses_to_both ? ": worse than both"
                           : ": not certainly better than both");
  return text;
}

// The folds that are missing where several were added up. Empty where there is nothing to say.
std::string missing_folds(const Values& values) {
  if (values.folds.size() < 2 || static_cast<int>(values.folds.size()) >= values.fold_count) return {};
  std::string missing;
  for (int fold = 0; fold < values.fold_count; ++fold)
    if (!values.folds.contains(fold)) missing += (missing.empty() ? "" : ", ") + std::to_string(fold);
  return "this is not every residue: of " + std::to_string(values.fold_count) + " folds, fold " + missing +
         " was not evaluated";
}

std::string mistaken_for(size_t amino_acid, double share) {
  return share > 0 ? std::string("  ") + residues::kAminoAcids[amino_acid] + " " + figures::decimal(share)
                   : "";
}

// Recall, precision and the usual mistake of each amino acid.
std::string by_amino_acid(const Values& values) {
  std::string text = "amino acid   masked  recall  precision  mostly mistaken for";
  for (size_t right = 0; right < residues::kAminoAcidCount; ++right) {
    double masked = 0, predicted = 0;
    size_t mistake = right;
    for (size_t other = 0; other < residues::kAminoAcidCount; ++other) {
      masked += values.confusion.of(right, other);
      predicted += values.confusion.of(other, right);
      if (other != right &&
          (mistake == right || values.confusion.of(right, other) > values.confusion.of(right, mistake)))
        mistake = other;
    }
    if (masked == 0) continue;
    const double correct = values.confusion.of(right, right);
    text += std::string("\n  ") + residues::kAminoAcids[right] +
            right_aligned(figures::decimal(masked, 0), 16) +
            right_aligned(figures::decimal(correct / masked), 8) +
            right_aligned(predicted > 0 ? figures::decimal(correct / predicted) : "-", 11) +
            mistaken_for(mistake, values.confusion.of(right, mistake) / masked);
  }
  return text;
}

}  // namespace

void report_scores(std::span<const EvaluationValue> sent, const ReportSink& sink) {
  const Values values(sent);
  if (values.clusters.empty()) return;
  sink.text(figures(values, sink));
  if (const std::string missing = missing_folds(values); !missing.empty()) sink.text(missing);
  sink.text(by_amino_acid(values));
  std::vector<std::string> letters;
  for (const char letter : residues::kAminoAcids) letters.emplace_back(1, letter);
  labels::show_confusion(values.confusion, letters,
                         {.title = "Masked residues: what is right, and what is predicted",
                          .high = 0.5,
                          .low_label = "0 of the residues",
                          .high_label = "half of them or more"},
                         sink);
}

}  // namespace pipeline::tasks::protein
