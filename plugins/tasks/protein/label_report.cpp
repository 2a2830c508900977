#include "plugins/tasks/protein/label_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <pipeline/numbers.hpp>
#include <set>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/proteins/report_text.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/intervals/interval.hpp"
#include "plugins/scores/labels/labels.hpp"

namespace pipeline::tasks::protein {
namespace {

constexpr std::string_view kConfusion = "confusion/";

// Labels of all samples, laid end to end.
struct Rows {
  std::vector<uint64_t> clusters;  // of each label
  std::vector<float> values;
  std::vector<double> right;  // of numbers
  size_t columns;

  Rows(const Report& report, size_t row) : columns(row) {
    for (const EvaluationRecord& one : report.records) {
      if (one.key != LabelRecord::kKey) continue;
      const LabelRecord record = LabelRecord::unpack(one.bytes);
      clusters.insert(clusters.end(), record.values.size() / columns, record.cluster);
      values.insert(values.end(), record.values.begin(), record.values.end());
      right.insert(right.end(), record.right.begin(), record.right.end());
    }
  }
  size_t size() const { return clusters.size(); }
  double of(size_t row, size_t column) const { return static_cast<double>(values[row * columns + column]); }
};

// A figure of some rows, each counted as often as it is named.
using Figure = std::function<std::optional<double>(std::span<const size_t>)>;

// What is added up over each cluster, and a figure of such sums.
using Sums = std::vector<double>;
using SumsByCluster = std::map<uint64_t, Sums>;
using FigureOfSums = std::function<double(const Sums&)>;

Sums added(const std::vector<const Sums*>& all, std::span<const size_t> which) {
  Sums sums(all.empty() ? 0 : all.front()->size());
  for (const size_t one : which)
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += (*all[one])[k];
  return sums;
}

std::vector<size_t> up_to(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

// Writes figures, in a full evaluation with intervals, where 1,000 draws do not take long: a draw costs as
// much as the figure itself.
class FigureWriter {
 public:
  FigureWriter(const Rows& rows, const Report& report, const ReportSink& sink)
      : rows_(rows), sink_(sink), is_full_(report.purpose == Purpose::kEvaluate) {}

  // A figure as text, "0.512 [0.431, 0.580]", and to the sink. cost: of one, in values that are sorted.
  std::string ranks(const char* name, const Figure& figure, size_t cost) const {
    const std::optional<double> value = figure(up_to(rows_.size()));
    const bool has_interval = is_full_ && cost <= kMostSorted;
    return write(name, PL_BETTER_HIGHER, value,
                 value && has_interval ? intervals::resampled(rows_.clusters, figure) : std::nullopt);
  }
  std::string sums(const char* name, uint32_t better, const SumsByCluster& by_cluster,
                   const FigureOfSums& figure) const {
    std::vector<const Sums*> all;
    std::vector<uint64_t> clusters;
    for (const auto& [cluster, one] : by_cluster) all.push_back(&one), clusters.push_back(cluster);
    const bool has_interval = is_full_ && !all.empty() && all.size() * all.front()->size() <= kMostAdded;
    const auto of = [&](std::span<const size_t> which) { return std::optional(figure(added(all, which))); };
    return write(name, better, of(up_to(all.size())),
                 has_interval ? intervals::resampled(clusters, of) : std::nullopt);
  }
  std::string head(const char* noun) const {
    const std::set<uint64_t> clusters(rows_.clusters.begin(), rows_.clusters.end());
    return proteins::counted(rows_.size(), noun) + " in " + proteins::counted(clusters.size(), "cluster") +
           (clusters.size() < 2 ? ": too few for intervals" : "; 95% intervals over these:");
  }
  bool is_full() const { return is_full_; }

 private:
  static constexpr size_t kMostSorted = 100'000, kMostAdded = 1'000'000;

  std::string write(const char* name, uint32_t better, const std::optional<double>& value,
                    const std::optional<intervals::Interval>& bounds) const {
    if (!value) return "none";
    sink_.figure(name, *value, better);
    if (!bounds) return figures::decimal(*value);
    sink_.figure(std::string(name) + "_low", bounds->low, better);
    sink_.figure(std::string(name) + "_high", bounds->high, better);
    return figures::decimal(*value) + " [" + figures::decimal(bounds->low) + ", " +
           figures::decimal(bounds->high) + "]";
  }

  const Rows& rows_;
  const ReportSink& sink_;
  bool is_full_;
};

std::vector<double> column(const Rows& rows, std::span<const size_t> which, size_t column) {
  std::vector<double> values;
  for (const size_t row : which) values.push_back(rows.of(row, column));
  return values;
}

void tell_numbers(const Rows& rows, const proteins::LabelScale& scale, const Report& report,
                  const ReportSink& sink) {
  const FigureWriter writer(rows, report, sink);
  enum Sum : size_t { kCount, kSquares, kAbsolute, kSquaresOfMean, kSumCount };
  SumsByCluster by_cluster;
  for (size_t row = 0; row < rows.size(); ++row) {
    Sums& sums = by_cluster.try_emplace(rows.clusters[row], kSumCount, 0.0).first->second;
    const double from_mean = rows.right[row] - scale.mean,
                 error = rows.of(row, 0) * scale.deviation - from_mean;
    sums[kCount] += 1;
    sums[kSquares] += error * error;
    sums[kAbsolute] += std::abs(error);
    sums[kSquaresOfMean] += from_mean * from_mean;
  }
  const auto root = [](Sum which) {
    return [which](const Sums& sums) { return std::sqrt(sums[which] / sums[kCount]); };
  };
  const auto correlation = [&](auto of) -> Figure {
    return [&rows, of](std::span<const size_t> which) {
      std::vector<double> right;
      for (const size_t row : which) right.push_back(rows.right[row]);
      return of(right, column(rows, which, 0));
    };
  };
  using Values = std::vector<double>;
  const std::string ranks = writer.ranks(
      "spearman", correlation([](const Values& a, const Values& b) { return labels::spearman(a, b); }),
      rows.size());
  const std::string linear = writer.ranks(
      "pearson", correlation([](const Values& a, const Values& b) { return labels::pearson(a, b); }),
      rows.size());
  const std::string square = writer.sums("rmse", PL_BETTER_LOWER, by_cluster, root(kSquares)),
                    absolute = writer.sums("mae", PL_BETTER_LOWER, by_cluster,
                                           [](const Sums&sums) { return sums[kAbsolute] / sums[kCount]; });
  // Nobody knows what a folder's model was trained with.
  const std::string guess =
      scale.count == 0 ? "" : writer.sums("mean_rmse", PL_BETTER_LOWER, by_cluster, root(kSquaresOfMean));
  if (writer.is_full())
    sink.text(writer.head("number") + "\n  Spearman " + ranks + "  Pearson " + linear +
              "\n  root mean square error " + square +
              (guess.empty() ? "" : "  (the training data's mean: " + guess + ")") +
              "  mean absolute error " + absolute);
}

// The confusions of each cluster; where there are no rows, of all values together.
SumsByCluster confusions(const Rows& rows, const Report& report, size_t classes) {
  SumsByCluster by_cluster;
  const auto sums = [&](uint64_t cluster) -> Sums& {
    return by_cluster.try_emplace(cluster, classes * classes, 0.0).first->second;
  };
  for (size_t row = 0; row < rows.size(); ++row) {
    size_t predicted = 0;
    for (size_t k = 1; k < classes; ++k)
      if (rows.of(row, 1 + k) > rows.of(row, 1 + predicted)) predicted = k;
    sums(rows.clusters[row])[static_cast<size_t>(rows.of(row, 0)) * classes + predicted] += 1;
  }
  for (const EvaluationValue& value : report.values)
    if (rows.size() == 0 && value.group.empty() && value.name.starts_with(kConfusion))
      sums(0).at(std::stoul(std::string(value.name.substr(kConfusion.size())))) += value.sum;
  return by_cluster;
}

void tell_classes(const Rows& rows, const proteins::Labels& labels, const proteins::LabelScale& scale,
                  const Report& report, const ReportSink& sink) {
  const FigureWriter writer(rows, report, sink);
  const size_t classes = scale.classes.size();
  const SumsByCluster by_cluster = confusions(rows, report, classes);
  if (by_cluster.empty()) return;
  const auto confusion = [&](const Sums& sums) {
    labels::Confusion counts(classes);
    counts.counts = sums;
    return counts;
  };
  const auto of = [&](auto figure) {
    return [&, figure](const Sums& sums) { return figure(confusion(sums)); };
  };
  // For two classes that of the second one, else the mean over those that are there, each against the rest.
  const auto area = [&](std::span<const size_t> which) -> std::optional<double> {
    double sum = 0, there = 0;
    for (size_t k = classes == 2 ? 1 : 0; k < classes; ++k) {
      std::vector<uint8_t> is;
      for (const size_t row : which) is.push_back(static_cast<size_t>(rows.of(row, 0)) == k ? 1 : 0);
      const std::optional<double> one = labels::area_under_roc(column(rows, which, 1 + k), is);
      if (one) sum += *one, there += 1;
    }
    return there == 0 ? std::nullopt : std::optional(sum / there);
  };
  const std::string accuracy = writer.sums("accuracy", PL_BETTER_HIGHER, by_cluster,
                                           of([](const labels::Confusion&c) { return c.accuracy(); })),
                    mcc = writer.sums("mcc", PL_BETTER_HIGHER, by_cluster,
                                      of([](const labels::Confusion&c) { return c.mcc(); })),
                    f1 = writer.sums("macro_f1", PL_BETTER_HIGHER, by_cluster,
                                     of([](const labels::Confusion&c) { return c.macro_f1(); }));
  const std::string roc = rows.size() == 0 ? "" : writer.ranks("auroc", area, rows.size() * classes);
  const std::optional<size_t> usual = scale.number_of(scale.usual);
  const std::string guess = !usual ? ""
                                   : writer.sums("majority_accuracy", PL_BETTER_HIGHER, by_cluster,
                                                 of([&](const labels::Confusion& c) {
                                                   double is = 0, all = 0;
                                                   for (size_t k = 0; k < c.counts.size(); ++k) {
                                                     all += c.counts[k];
                                                     is += k / classes == *usual ? c.counts[k] : 0;
                                                   }
                                                   return is / all;
                                                 }));
  if (!writer.is_full()) return;
  const std::string head =
      rows.size() == 0 ? "of evaluations added up, without intervals:" : writer.head("label");
  sink.text(head + "\n  " + (labels.options().is_from_backbone() ? "Q3 (accuracy) " : "accuracy ") +
            accuracy +
            (guess.empty() ? "" : "  (always the most frequent class, " + scale.usual + ": " + guess + ")") +
            "\n  Matthews' correlation " + mcc + "  macro F1 " + f1 +
            (roc.empty() ? "" : "  area under the ROC curve " + roc));
  std::vector<const Sums*> all;
  for (const auto& [cluster, sums] : by_cluster) all.push_back(&sums);
  show_confusion(confusion(added(all, up_to(all.size()))), scale.classes,
                 {.title = "What is right, and what is predicted",
                  .low_label = "0 of the right class",
                  .high_label = "all of it"},
                 sink);
}

void tell_contacts(const Rows& rows, const Report& report, const ReportSink& sink) {
  const FigureWriter writer(rows, report, sink);
  const auto mean = [&](labels::ContactFigure figure) -> Figure {
    return [&rows, figure](std::span<const size_t> which) -> std::optional<double> {
      double sum = 0, count = 0;
      for (const size_t row : which)
        if (const double value = rows.of(row, figure); !std::isnan(value)) sum += value, count += 1;
      return count == 0 ? std::nullopt : std::optional(sum / count);
    };
  };
  const auto told = [&](const char* name, labels::ContactFigure figure) {
    return writer.ranks(name, mean(figure), rows.size());
  };
  // One by one, in the order in which they are shown.
  const std::string all_l = told("precision_at_L", labels::kTopL),
                    all_l2 = told("precision_at_L2", labels::kTopL2),
                    all_l5 = told("precision_at_L5", labels::kTopL5),
                    nearest = told("nearest_precision_at_L", labels::kNearestL),
                    long_l = told("long_precision_at_L", labels::kLongL),
                    long_l2 = told("long_precision_at_L2", labels::kLongL2),
                    long_l5 = told("long_precision_at_L5", labels::kLongL5),
                    area = told("auroc", labels::kArea);
  if (!writer.is_full()) return;
  sink.text(writer.head("chain") + "\n  precision of the likeliest pairs at least " +
            std::to_string(proteins::kLeastApart) + " apart: L " + all_l + "  L/2 " + all_l2 + "  L/5 " +
            all_l5 + "  (of the L nearest along the chain: " + nearest + ")\n  at least " +
            std::to_string(labels::kLongRange) + " apart: L " + long_l + "  L/2 " + long_l2 + "  L/5 " +
            long_l5 + "\n  area under the ROC curve " + area);
}

}  // namespace

void send_confusion(const EvaluationSink& sink, const labels::Confusion& confusion) {
  for (size_t k = 0; k < confusion.counts.size(); ++k)
    if (confusion.counts[k] > 0)
      sink.value(std::string(kConfusion) + std::to_string(k), confusion.counts[k], 1);
}

std::string LabelRecord::pack() const {
  const uint64_t numbers = right.size();
  std::string bytes(files::bytes_of(cluster));
  return bytes.append(files::bytes_of(numbers))
      .append(files::bytes_of(right))
      .append(files::bytes_of(values));
}

LabelRecord LabelRecord::unpack(std::string_view bytes) {
  LabelRecord record;
  uint64_t numbers = 0;
  if (!files::take(bytes, record.cluster) || !files::take(bytes, numbers)) return record;
  const auto take_numbers = [&bytes](size_t count, auto& into) {
    into.resize(count);
    const size_t size = count * sizeof(into[0]);
    if (size > 0) std::memcpy(into.data(), bytes.data(), size);
    bytes.remove_prefix(size);
  };
  take_numbers(std::min<uint64_t>(numbers, bytes.size() / sizeof(double)), record.right);
  take_numbers(bytes.size() / sizeof(float), record.values);
  return record;
}

void show_confusion(const labels::Confusion& confusion, const std::vector<std::string>& classes,
                    figures::HeatMap map, const ReportSink& sink) {
  constexpr size_t kMostShown = 40, kLongest = 2;  // longer names would run into each other in the picture
  const bool by_number =
      std::ranges::any_of(classes, [](const std::string& name) { return name.size() > kLongest; });
  if (by_number) map.title += "; classes in the order of confusion.csv";
  map.row_title = "right";
  map.column_title = "predicted";
  std::string csv = "right";
  for (const std::string& name : classes) csv += "," + proteins::csv_field(name);
  csv += "\n";
  for (size_t right = 0; right < classes.size(); ++right) {
    csv += proteins::csv_field(classes[right]);
    double all = 0;
    for (size_t k = 0; k < classes.size(); ++k) {
      csv += "," + figures::decimal(confusion.of(right, k), 0);
      all += confusion.of(right, k);
    }
    csv += "\n";
    map.rows.push_back(by_number ? std::to_string(right + 1) : classes[right]);
    map.columns.push_back(map.rows.back());
    for (size_t k = 0; k < classes.size(); ++k)
      map.values.push_back(all > 0 ? confusion.of(right, k) / all : std::nan(""));
  }
  sink.file("confusion.csv", csv);
  if (classes.size() <= kMostShown) sink.file("confusion.svg", figures::draw(map));
}

void report_labels(const proteins::Labels& labels, const proteins::LabelScale& scale, const Report& report,
                   const ReportSink& sink) {
  const size_t columns = labels.are_contacts()  ? size_t{labels::kContactFigures}
                         : labels.are_numbers() ? size_t{1}
                                                : 1 + scale.classes.size();
  const Rows rows(report, columns);
  if (rows.size() == 0 && (labels.are_contacts() || labels.are_numbers() || scale.classes.empty())) {
    if (report.purpose == Purpose::kEvaluate)
      sink.text(
          "of evaluations that are added up the loss alone is told: the other figures need every prediction");
    return;
  }
  if (labels.are_contacts())
    tell_contacts(rows, report, sink);
  else if (labels.are_numbers())
    tell_numbers(rows, scale, report, sink);
  else
    tell_classes(rows, labels, scale, report, sink);
}

std::vector<Metric> label_metrics(const proteins::Labels& labels) {
  return {{.name = "loss",
           .help = labels.are_contacts() ? "cross-entropy per pair of residues, the mean over chains, in nats"
                   : labels.are_numbers() ? "squared error over the variance of the training data"
                                          : "cross-entropy per label, in nats"}};
}

}  // namespace pipeline::tasks::protein
