#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "plugins/tasks/protein/task/heat_map.hpp"
#include "plugins/tasks/protein/task/random.hpp"
#include "plugins/tasks/protein/task/scores.hpp"

namespace pipeline::protein {
namespace {

constexpr int kResamples = 2000;
constexpr uint64_t kBootstrapSeed = 1;  // the same intervals from the same values, whoever computes them

struct Sum {
  double sum = 0, weight = 0;
  void add(const Sum& other) { sum += other.sum, weight += other.weight; }
  double mean() const { return weight > 0 ? sum / weight : std::nan(""); }
};

// The sums of one cluster, or of several together.
using Cluster = std::map<std::string, Sum, std::less<>>;
using Figure = std::function<double(const Cluster&)>;

double mean(const Cluster& cluster, std::string_view name) {
  const auto found = cluster.find(name);
  return found == cluster.end() ? std::nan("") : found->second.mean();
}

// What report() was given, put in order.
struct Values {
  std::map<std::string, Cluster> clusters;
  std::array<std::array<double, kAminoAcidCount>, kAminoAcidCount> confusion{};  // [right][predicted]

  explicit Values(std::span<const EvaluationValue> values) {
    for (const EvaluationValue& value : values) {
      std::string_view name = value.name;
      if (constexpr std::string_view prefix = ".cluster/"; name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        const size_t slash = name.find('/');
        clusters[std::string(name.substr(0, slash))][std::string(name.substr(slash + 1))] = {value.sum, value.weight};
      } else if (constexpr std::string_view confused = ".confusion/"; name.starts_with(confused)) {
        const size_t right = kAminoAcids.find(name[confused.size()]), predicted = kAminoAcids.find(name[confused.size() + 1]);
        confusion[right][predicted] = value.sum;
      }
    }
  }
};

struct Interval {
  double low, high;
};

// 95% intervals of all figures from the same resamples.
std::vector<Interval> bootstrap(const std::map<std::string, Cluster>& clusters, const std::vector<Figure>& figures) {
  std::vector<const Cluster*> all;
  for (const auto& [name, cluster] : clusters) all.push_back(&cluster);
  std::vector<std::vector<double>> drawn(figures.size());
  Random random(kBootstrapSeed);
  for (int resample = 0; resample < kResamples; ++resample) {
    Cluster together;
    for (size_t i = 0; i < all.size(); ++i)
      for (const auto& [name, sum] : *all[random.below(all.size())]) together[name].add(sum);
    for (size_t f = 0; f < figures.size(); ++f) drawn[f].push_back(figures[f](together));
  }
  std::vector<Interval> intervals;
  for (std::vector<double>& values : drawn) {
    std::sort(values.begin(), values.end());
    intervals.push_back({values[kResamples * 25 / 1000], values[kResamples * 975 / 1000 - 1]});
  }
  return intervals;
}

std::string decimal(double value, int digits = 3) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string right_aligned(const std::string& text, size_t width) { return std::string(width - std::min(width, text.size()), ' ') + text; }

// Figures with intervals, and lines that say how they stand to the guesses.
std::string intervals(const Values& values, const ReportSink& sink) {
  const auto of = [](std::string name) -> Figure { return [name](const Cluster& c) { return mean(c, name); }; };
  const auto perplexity = [](std::string name) -> Figure { return [name](const Cluster& c) { return std::exp(mean(c, name)); }; };
  const std::vector<std::pair<std::string, Figure>> figures{
      {"accuracy", of("accuracy")},
      {"top3", of("top3")},
      {"perplexity", perplexity("loss")},
      {"accuracy_gain", [](const Cluster& c) { return mean(c, "accuracy") - mean(c, "majority_accuracy"); }},
      {"perplexity_ratio", [](const Cluster& c) { return std::exp(mean(c, "loss") - mean(c, "background_loss")); }}};
  Cluster all;
  for (const auto& [number, cluster] : values.clusters)
    for (const auto& [name, sum] : cluster) all[name].add(sum);
  std::vector<Figure> functions;
  for (const auto& [name, figure] : figures) functions.push_back(figure);
  const std::vector<Interval> found = bootstrap(values.clusters, functions);
  for (size_t f = 0; f < figures.size(); ++f) {
    const auto& [name, figure] = figures[f];
    const bool higher = name != "perplexity" && name != "perplexity_ratio";
    const uint32_t better = higher ? PL_BETTER_HIGHER : PL_BETTER_LOWER;
    if (f >= 3) sink.figure(name, figure(all), better);
    sink.figure(name + "_low", found[f].low, better);
    sink.figure(name + "_high", found[f].high, better);
  }
  const auto row = [&](size_t f, const char* what) {
    return std::string(what) + " " + decimal(figures[f].second(all)) + " [" + decimal(found[f].low) + ", " + decimal(found[f].high) + "]";
  };
  std::string text = "95% intervals over " + std::to_string(values.clusters.size()) + " clusters of similar sequences, " +
                     decimal(all["loss"].weight, 0) + " masked residues:";
  text += "\n  " + row(0, "accuracy") + "  (most frequent amino acid: " + decimal(mean(all, "majority_accuracy")) + ")  " + row(1, "top 3");
  text += "\n  " + row(2, "perplexity") + "  (training frequencies: " + decimal(std::exp(mean(all, "background_loss"))) + ")";
  const bool beats_both = found[3].low > 0 && found[4].high < 1;
  text += "\n  " + row(3, "accuracy over the most frequent") + "  " + row(4, "perplexity over the frequencies'") +
          (beats_both ? ": better than both" : ": not certainly better than both");
  return text;
}

std::string mistaken_for(size_t amino_acid, double share) {
  return share > 0 ? std::string("  ") + kAminoAcids[amino_acid] + " " + decimal(share) : "";
}

// Recall, precision and the usual mistake of each amino acid.
std::string by_amino_acid(const Values& values) {
  std::string text = "amino acid   masked  recall  precision  mostly mistaken for";
  for (size_t right = 0; right < kAminoAcidCount; ++right) {
    double masked = 0, predicted = 0;
    size_t mistake = right;
    for (size_t other = 0; other < kAminoAcidCount; ++other) {
      masked += values.confusion[right][other];
      predicted += values.confusion[other][right];
      if (other != right && (mistake == right || values.confusion[right][other] > values.confusion[right][mistake])) mistake = other;
    }
    if (masked == 0) continue;
    const double correct = values.confusion[right][right];
    text += std::string("\n  ") + kAminoAcids[right] + right_aligned(decimal(masked, 0), 16) + right_aligned(decimal(correct / masked), 8) +
            right_aligned(predicted > 0 ? decimal(correct / predicted) : "-", 11) + mistaken_for(mistake, values.confusion[right][mistake] / masked);
  }
  return text;
}

std::string confusion_table(const Values& values) {
  std::string csv = "right";
  for (const char letter : kAminoAcids) csv += std::string(",") + letter;
  csv += "\n";
  for (size_t right = 0; right < kAminoAcidCount; ++right) {
    csv += kAminoAcids[right];
    for (const double count : values.confusion[right]) csv += "," + decimal(count, 0);
    csv += "\n";
  }
  return csv;
}

std::string confusion_picture(const Values& values) {
  HeatMap map{.title = "Masked residues: what is right, and what is predicted",
              .low = 0,
              .high = 0.5,
              .low_label = "0 of the residues",
              .high_label = "half of them or more",
              .row_title = "right",
              .column_title = "predicted"};
  for (size_t right = 0; right < kAminoAcidCount; ++right) {
    map.rows.emplace_back(1, kAminoAcids[right]);
    map.columns.emplace_back(1, kAminoAcids[right]);
    double masked = 0;
    for (const double count : values.confusion[right]) masked += count;
    for (const double count : values.confusion[right]) map.values.push_back(masked > 0 ? count / masked : std::nan(""));
  }
  return draw(map);
}

}  // namespace

void report_scores(std::span<const EvaluationValue> sent, const ReportSink& sink) {
  const Values values(sent);
  if (values.clusters.empty()) return;
  sink.text(intervals(values, sink));
  sink.text(by_amino_acid(values));
  sink.file("confusion.csv", confusion_table(values));
  sink.file("confusion.svg", confusion_picture(values));
}

}  // namespace pipeline::protein
