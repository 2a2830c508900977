#include "plugins/tasks/protein/report/label_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "plugins/data/files/hash128.hpp"
#include "plugins/tasks/protein/data/report_text.hpp"
#include "plugins/tasks/protein/report/figures.hpp"
#include "plugins/tasks/protein/report/heat_map.hpp"

namespace pipeline::protein {
namespace {

constexpr int64_t kLongRange = 24;  // positions apart (CASP)

// Labels of all samples, laid end to end.
struct Rows {
  std::vector<uint64_t> clusters;  // of each
  std::vector<float> values;
  size_t columns;

  Rows(const Report& report, size_t row) : columns(row) {
    for (const EvaluationRecord& one : report.records) {
      if (one.key != LabelRecord::kKey) continue;
      const LabelRecord record = LabelRecord::unpack(one.bytes);
      clusters.insert(clusters.end(), record.values.size() / columns, record.cluster);
      values.insert(values.end(), record.values.begin(), record.values.end());
    }
  }
  size_t size() const { return clusters.size(); }
  double of(size_t row, size_t column) const { return static_cast<double>(values[row * columns + column]); }
};

// Of some rows, each as often as it is named.
using Figure = std::function<std::optional<double>(std::span<const size_t>)>;

class Teller {
 public:
  Teller(const Rows& rows, const Report& report, const ReportSink& sink)
      : rows_(rows), sink_(sink), is_full_(report.purpose == Purpose::kEvaluate), all_(rows.size()) {
    std::iota(all_.begin(), all_.end(), size_t{0});
  }

  // As "0.512 [0.431, 0.580]", and as a figure.
  std::string operator()(const char* name, uint32_t better, const Figure& figure) const {
    const std::optional<double> value = figure(all_);
    if (!value) return "none";
    sink_.figure(name, *value, better);
    // A draw costs as much as the figure: of very many rows intervals would be narrow, and take minutes.
    if (!is_full_ || rows_.size() > kMostDrawn) return decimal(*value);
    const std::optional<Bounds> bounds = resampled(rows_.clusters, figure);
    if (!bounds) return decimal(*value);
    sink_.figure(std::string(name) + "_low", bounds->low, better);
    sink_.figure(std::string(name) + "_high", bounds->high, better);
    return decimal(*value) + " [" + decimal(bounds->low) + ", " + decimal(bounds->high) + "]";
  }
  std::string head(const char* noun) const {
    std::vector<uint64_t> clusters = rows_.clusters;
    std::ranges::sort(clusters);
    clusters.erase(std::unique(clusters.begin(), clusters.end()), clusters.end());
    return counted(rows_.size(), noun) + " in " + counted(clusters.size(), "cluster") +
           " of similar sequences" +
           (clusters.size() < 2         ? ": too few for intervals"
            : rows_.size() > kMostDrawn ? ": too many for intervals"
                                        : "; 95% intervals over these:");
  }
  bool is_full() const { return is_full_; }

 private:
  static constexpr size_t kMostDrawn = 20'000;

  const Rows& rows_;
  const ReportSink& sink_;
  bool is_full_;
  std::vector<size_t> all_;
};

std::vector<double> column(const Rows& rows, std::span<const size_t> which, size_t column) {
  std::vector<double> values;
  for (const size_t row : which) values.push_back(rows.of(row, column));
  return values;
}

void tell_numbers(const Rows& rows, const LabelScale& scale, const Report& report, const ReportSink& sink) {
  const Teller tell(rows, report, sink);
  const auto error = [&](double power, const std::function<double(size_t)>& guess) -> Figure {
    return [&rows, power, guess](std::span<const size_t> which) -> std::optional<double> {
      double sum = 0;
      for (const size_t row : which) sum += std::pow(std::abs(rows.of(row, 0) - guess(row)), power);
      return std::pow(sum / static_cast<double>(which.size()), 1 / power);
    };
  };
  const auto predicted = [&](size_t row) { return rows.of(row, 1); };
  const auto mean = [&](size_t) { return scale.mean; };
  const auto correlation = [&](auto of) -> Figure {
    return [&rows, of](std::span<const size_t> which) {
      return of(column(rows, which, 0), column(rows, which, 1));
    };
  };
  using Values = std::vector<double>;
  const std::string ranks =
      tell("spearman", PL_BETTER_HIGHER,
           correlation([](const Values& a, const Values& b) { return spearman(a, b); }));
  const std::string linear =
      tell("pearson", PL_BETTER_HIGHER,
           correlation([](const Values& a, const Values& b) { return pearson(a, b); }));
  const std::string square = tell("rmse", PL_BETTER_LOWER, error(2, predicted)),
                    absolute = tell("mae", PL_BETTER_LOWER, error(1, predicted)),
                    guess = tell("mean_rmse", PL_BETTER_LOWER, error(2, mean));
  if (tell.is_full())
    sink.text(tell.head("number") + "\n  Spearman " + ranks + "  Pearson " + linear +
              "\n  root mean square error " + square + "  (the training data's mean: " + guess +
              ")  mean absolute error " + absolute);
}

// Right classes by predicted ones, as a table and a picture.
void show_confusion(const Confusion& confusion, const std::vector<std::string>& classes,
                    const ReportSink& sink) {
  constexpr size_t kMostShown = 40, kLongest = 2;  // longer names would run into each other in the picture
  const bool by_number =
      std::ranges::any_of(classes, [](const std::string& name) { return name.size() > kLongest; });
  std::string csv = "right";
  for (const std::string& name : classes) csv += "," + csv_field(name);
  csv += "\n";
  HeatMap map{.title = by_number
                           ? "What is right, and what is predicted; classes in the order of confusion.csv"
                           : "What is right, and what is predicted",
              .low = 0,
              .high = 1,
              .low_label = "0 of the right class",
              .high_label = "all of it",
              .row_title = "right",
              .column_title = "predicted"};
  for (size_t right = 0; right < classes.size(); ++right) {
    csv += csv_field(classes[right]);
    double all = 0;
    for (size_t k = 0; k < classes.size(); ++k) {
      csv += "," + decimal(confusion.of(right, k), 0);
      all += confusion.of(right, k);
    }
    csv += "\n";
    map.rows.push_back(by_number ? std::to_string(right + 1) : classes[right]);
    map.columns.push_back(map.rows.back());
    for (size_t k = 0; k < classes.size(); ++k)
      map.values.push_back(all > 0 ? confusion.of(right, k) / all : std::nan(""));
  }
  sink.file("confusion.csv", csv);
  if (classes.size() <= kMostShown) sink.file("confusion.svg", draw(map));
}

void tell_classes(const Rows& rows, const Labels& labels, const LabelScale& scale, const Report& report,
                  const ReportSink& sink) {
  const Teller tell(rows, report, sink);
  const size_t classes = scale.classes.size();
  std::vector<size_t> right(rows.size()), predicted(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    right[row] = static_cast<size_t>(rows.of(row, 0));
    for (size_t k = 1; k < classes; ++k)
      if (rows.of(row, 1 + k) > rows.of(row, 1 + predicted[row])) predicted[row] = k;
  }
  const auto confusion = [&](std::span<const size_t> which) {
    Confusion counts(classes);
    for (const size_t row : which) counts.add(right[row], predicted[row]);
    return counts;
  };
  // Of two classes that of the second one, else the mean over those that are there, each against the rest.
  const auto area = [&](std::span<const size_t> which) -> std::optional<double> {
    double sum = 0, there = 0;
    for (size_t k = classes == 2 ? 1 : 0; k < classes; ++k) {
      std::vector<uint8_t> is;
      for (const size_t row : which) is.push_back(right[row] == k ? 1 : 0);
      const std::optional<double> one = area_under_roc(column(rows, which, 1 + k), is);
      if (one) sum += *one, there += 1;
    }
    return there == 0 ? std::nullopt : std::optional(sum / there);
  };
  const std::optional<size_t> usual = scale.number_of(scale.usual);
  const bool is_q3 = labels.options().is_from_backbone();
  const std::string accuracy = tell("accuracy", PL_BETTER_HIGHER,
                                    [&](auto which) { return confusion(which).accuracy(); }),
                    mcc = tell("mcc", PL_BETTER_HIGHER, [&](auto which) { return confusion(which).mcc(); }),
                    f1 = tell("macro_f1", PL_BETTER_HIGHER,
                              [&](auto which) { return confusion(which).macro_f1(); }),
                    roc = tell("auroc", PL_BETTER_HIGHER, area);
  const std::string guess = tell("majority_accuracy", PL_BETTER_HIGHER, [&](std::span<const size_t> which) {
    double sum = 0;
    for (const size_t row : which) sum += usual && right[row] == *usual ? 1 : 0;
    return std::optional(sum / static_cast<double>(which.size()));
  });
  if (!tell.is_full()) return;
  sink.text(tell.head("label") + "\n  " + (is_q3 ? "Q3 (accuracy) " : "accuracy ") + accuracy +
            "  (always the most frequent class, " + scale.usual + ": " + guess +
            ")\n  Matthews' correlation " + mcc + "  macro F1 " + f1 + "  area under the ROC curve " + roc);
  std::vector<size_t> all(rows.size());
  std::iota(all.begin(), all.end(), size_t{0});
  show_confusion(confusion(all), scale.classes, sink);
}

void tell_contacts(const Rows& rows, const Report& report, const ReportSink& sink) {
  const Teller tell(rows, report, sink);
  const auto mean = [&](ContactFigure figure) -> Figure {
    return [&rows, figure](std::span<const size_t> which) -> std::optional<double> {
      double sum = 0, count = 0;
      for (const size_t row : which)
        if (const double value = rows.of(row, figure); !std::isnan(value)) sum += value, count += 1;
      return count == 0 ? std::nullopt : std::optional(sum / count);
    };
  };
  const auto told = [&](const char* name, ContactFigure figure) {
    return tell(name, PL_BETTER_HIGHER, mean(figure));
  };
  // One by one, in the order in which they are shown.
  const std::string all_l = told("precision_at_L", kTopL), all_l2 = told("precision_at_L2", kTopL2),
                    all_l5 = told("precision_at_L5", kTopL5),
                    nearest = told("nearest_precision_at_L", kNearestL),
                    long_l = told("long_precision_at_L", kLongL),
                    long_l2 = told("long_precision_at_L2", kLongL2),
                    long_l5 = told("long_precision_at_L5", kLongL5), area = told("auroc", kArea);
  if (!tell.is_full()) return;
  sink.text(tell.head("chain") + "\n  precision of the likeliest pairs at least " +
            std::to_string(kLeastApart) + " apart: L " + all_l + "  L/2 " + all_l2 + "  L/5 " + all_l5 +
            "  (of the L nearest along the chain: " + nearest + ")\n  at least " +
            std::to_string(kLongRange) + " apart: L " + long_l + "  L/2 " + long_l2 + "  L/5 " + long_l5 +
            "\n  area under the ROC curve " + area);
}

}  // namespace

std::string LabelRecord::pack() const {
  return std::string(files::bytes_of(cluster)) + std::string(files::bytes_of(values));
}

LabelRecord LabelRecord::unpack(std::string_view bytes) {
  LabelRecord record;
  if (bytes.size() < sizeof record.cluster) return record;
  std::memcpy(&record.cluster, bytes.data(), sizeof record.cluster);
  bytes.remove_prefix(sizeof record.cluster);
  record.values.resize(bytes.size() / sizeof(float));
  std::memcpy(record.values.data(), bytes.data(), record.values.size() * sizeof(float));
  return record;
}

std::vector<float> contact_figures(std::span<const float> log_odds, std::span<const uint8_t> labels,
                                   std::span<const int64_t> positions) {
  struct Pair {
    float score;
    int64_t apart;
    bool is_contact;
  };
  const size_t length = positions.size();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < length; ++i)
    for (size_t j = i + 1; j < length; ++j)
      if (const uint8_t label = labels[i * length + j]; label != kNoPair)
        pairs.push_back({log_odds[i * length + j], positions[j] - positions[i], label == kContact});
  std::vector<float> figures(kContactFigures, std::numeric_limits<float>::quiet_NaN());
  std::vector<double> scores;
  std::vector<uint8_t> are;
  for (const Pair& pair : pairs) {
    scores.push_back(static_cast<double>(pair.score));
    are.push_back(pair.is_contact ? 1 : 0);
  }
  figures[kArea] =
      static_cast<float>(area_under_roc(scores, are).value_or(std::numeric_limits<double>::quiet_NaN()));
  const auto set = [&](ContactFigure figure, size_t part) {
    const size_t most = std::min(pairs.size(), std::max<size_t>(length / part, 1));
    const bool has_contacts = std::ranges::any_of(pairs, &Pair::is_contact);
    if (!has_contacts) return;
    const auto contacts = std::count_if(pairs.begin(), pairs.begin() + static_cast<int64_t>(most),
                                        [](const Pair& pair) { return pair.is_contact; });
    figures[figure] = static_cast<float>(contacts) / static_cast<float>(most);
  };
  // Pairs with the same score stay in the order of the chain.
  std::ranges::stable_sort(pairs, {}, &Pair::apart);
  set(kNearestL, 1);
  std::ranges::stable_sort(pairs, std::greater<>(), &Pair::score);
  set(kTopL, 1), set(kTopL2, 2), set(kTopL5, 5);
  std::erase_if(pairs, [](const Pair& pair) { return pair.apart < kLongRange; });
  set(kLongL, 1), set(kLongL2, 2), set(kLongL5, 5);
  return figures;
}

void report_labels(const Labels& labels, const LabelScale& scale, const Report& report,
                   const ReportSink& sink) {
  const size_t columns = labels.are_contacts()  ? size_t{kContactFigures}
                         : labels.are_numbers() ? size_t{2}
                                                : 1 + scale.classes.size();
  const Rows rows(report, columns);
  if (rows.size() == 0) {
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

std::vector<Metric> label_metrics(const Labels& labels) {
  return {{.name = "loss",
           .help = labels.are_contacts() ? "cross-entropy per pair of residues, the mean over chains, in nats"
                   : labels.are_numbers() ? "squared error over the variance of the training data"
                                          : "cross-entropy per label, in nats"}};
}

}  // namespace pipeline::protein
