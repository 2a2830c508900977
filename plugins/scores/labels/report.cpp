#include "plugins/scores/labels/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/labels/confusion.hpp"
#include "plugins/scores/labels/figure_writer.hpp"

namespace pipeline::labels {
namespace {

constexpr std::string_view kPredicted = "labels of ";

std::vector<double> column(const Rows& rows, std::span<const size_t> which, size_t column) {
  std::vector<double> values;
  for (const size_t row : which) values.push_back(rows.of(row, column));
  return values;
}

void tell_numbers(const Predicted& predicted, const Rows& rows, const Report& report,
                  const ReportSink& sink) {
  const FigureWriter writer(predicted, rows, report, sink);
  enum Sum : size_t { kCount, kSquares, kAbsolute, kSquaresOfMean, kSumCount };
  SumsByGroup by_group;
  for (size_t row = 0; row < rows.size(); ++row) {
    auto& sums = by_group[rows.groups[row]];
    const double from_mean = rows.right[row] - predicted.mean,
                 error = rows.of(row, 0) * predicted.deviation - from_mean;
    sums[kCount] += 1;
    sums[kSquares] += error * error;
    sums[kAbsolute] += std::abs(error);
    sums[kSquaresOfMean] += std::pow(rows.right[row] - predicted.training_mean.value_or(0), 2);
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
      "spearman", correlation([](const Values& a, const Values& b) { return spearman(a, b); }), rows.size());
  const std::string linear = writer.ranks(
      "pearson", correlation([](const Values& a, const Values& b) { return pearson(a, b); }), rows.size());
  const std::string square = writer.sums("rmse", PL_BETTER_LOWER, by_group, kSumCount, root(kSquares)),
                    absolute = writer.sums("mae", PL_BETTER_LOWER, by_group, kSumCount,
                                           [](const Sums&sums) { return sums[kAbsolute] / sums[kCount]; });
  // Nobody knows what a folder's model was trained with.
  const std::string guess = predicted.training_mean ? writer.sums("mean_rmse", PL_BETTER_LOWER, by_group,
                                                                  kSumCount, root(kSquaresOfMean))
                                                    : "";
  if (writer.is_full())
    sink.text(writer.head() + "\n  Spearman " + ranks + "  Pearson " + linear +
              "\n  root mean square error " + square +
              (guess.empty() ? "" : "  (the training data's mean: " + guess + ")") +
              "  mean absolute error " + absolute);
}

// The likeliest class of a row.
size_t likeliest(const Rows& rows, size_t row, size_t classes) {
  size_t predicted = 0;
  for (size_t k = 1; k < classes; ++k)
    if (rows.of(row, 1 + k) > rows.of(row, 1 + predicted)) predicted = k;
  return predicted;
}

// The confusions of each group; where there are no rows, of all values together.
SumsByGroup confusions(const Rows& rows, const Report& report, size_t classes) {
  SumsByGroup by_group;
  for (size_t row = 0; row < rows.size(); ++row) {
    by_group[rows.groups[row]]
            [static_cast<size_t>(rows.of(row, 0)) * classes + likeliest(rows, row, classes)] += 1;
  }
  if (rows.size() > 0) return by_group;
  if (auto sent = sent_confusion(report); !sent.empty()) by_group.emplace(0, std::move(sent));
  return by_group;
}

// Of tags of words, each text a group, the figures of entities, whose type and words must all be right. A
// line for people; empty: the classes are no such tags.
std::string entity_figures(const Predicted& predicted, const Rows& rows, const FigureWriter& writer) {
  if (rows.size() == 0 || !are_entity_tags(predicted.classes)) return "";
  enum Sum : size_t { kBoth, kRight, kTold, kSumCount };
  SumsByGroup by_group;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    std::vector<std::string_view> right, told;
    for (; end < rows.size() && rows.groups[end] == rows.groups[begin]; ++end) {
      right.push_back(predicted.classes[static_cast<size_t>(rows.of(end, 0))]);
      told.push_back(predicted.classes[likeliest(rows, end, predicted.classes.size())]);
    }
    const std::vector<Entity> are = entities_of(right), found = entities_of(told);
    auto& sums = by_group[rows.groups[begin]];
    sums[kRight] += static_cast<double>(are.size());
    sums[kTold] += static_cast<double>(found.size());
    sums[kBoth] += static_cast<double>(std::ranges::count_if(
        found, [&](const Entity& one) { return std::ranges::find(are, one) != are.end(); }));
  }
  const auto share = [&](const char* name, double of_right, double of_told) {
    return writer.sums(name, PL_BETTER_HIGHER, by_group, kSumCount, [=](const Sums& sums) {
      const double all = of_right * sums[kRight] + of_told * sums[kTold];
      return all > 0 ? sums[kBoth] / all : 0;
    });
  };
  const std::string f1 = share("entity_f1", 0.5, 0.5), precision = share("entity_precision", 0, 1),
                    recall = share("entity_recall", 1, 0);
  return "\n  entities: F1 " + f1 + "  precision " + precision + "  recall " + recall;
}

// The expected calibration error (Guo et al., arXiv:1706.04599): of rows in bins of the likeliest class's
// probability, by how much that is off their share that is right, the mean over rows. Empty: there are no
// rows.
std::string calibration(const Rows& rows, size_t classes, const FigureWriter& writer) {
  constexpr size_t kBins = 15;
  enum Sum : size_t { kCount, kApart, kSums };
  if (rows.size() == 0) return "";
  SumsByGroup by_group;
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t told = likeliest(rows, row, classes);
    const double sure = std::exp(rows.of(row, 1 + told)),
                 is_right = static_cast<size_t>(rows.of(row, 0)) == told ? 1 : 0;
    const size_t bin = std::min(static_cast<size_t>(sure * kBins), kBins - 1);
    auto& sums = by_group[rows.groups[row]];
    sums[bin * kSums + kCount] += 1;
    sums[bin * kSums + kApart] += is_right - sure;
  }
  return writer.sums("calibration_error", PL_BETTER_LOWER, by_group, kBins * kSums, [](const Sums& sums) {
    double all = 0, apart = 0;
    for (size_t bin = 0; bin < kBins; ++bin) {
      all += sums[bin * kSums + kCount];
      apart += std::abs(sums[bin * kSums + kApart]);
    }
    return apart / all;
  });
}

void tell_classes(const Predicted& predicted, const Rows& rows, const Report& report,
                  const ReportSink& sink) {
  const FigureWriter writer(predicted, rows, report, sink);
  const size_t classes = predicted.classes.size();
  const SumsByGroup by_group = confusions(rows, report, classes);
  if (by_group.empty()) return;
  const auto confusion = [&](const Sums& sums) {
    Confusion counts(classes);
    counts.counts = sums;
    return counts;
  };
  const auto told = [&](const char* name, auto figure) {
    return writer.sums(name, PL_BETTER_HIGHER, by_group, classes * classes,
                       [&, figure](const Sums& sums) { return figure(confusion(sums)); });
  };
  // For two classes that of the second one, else the mean over those that are there, each against the rest.
  const auto area = [&](std::span<const size_t> which) -> std::optional<double> {
    double sum = 0, there = 0;
    for (size_t k = classes == 2 ? 1 : 0; k < classes; ++k) {
      std::vector<uint8_t> is;
      for (const size_t row : which) is.push_back(static_cast<size_t>(rows.of(row, 0)) == k ? 1 : 0);
      const std::optional<double> one = area_under_roc(column(rows, which, 1 + k), is);
      if (one) sum += *one, there += 1;
    }
    return there == 0 ? std::nullopt : std::optional(sum / there);
  };
  const std::string accuracy = told("accuracy", [](const Confusion&c) { return c.accuracy(); }),
                    mcc = told("mcc", [](const Confusion&c) { return c.mcc(); }),
                    f1 = told("macro_f1", [](const Confusion&c) { return c.macro_f1(); });
  const std::string roc = rows.size() == 0 ? "" : writer.ranks("auroc", area, rows.size() * classes);
  const auto usual =
      static_cast<size_t>(std::ranges::find(predicted.classes, predicted.usual) - predicted.classes.begin());
  const auto share_of_usual = [&](const Confusion& c) {
    double is = 0, all = 0;
    for (size_t k = 0; k < c.counts.size(); ++k) {
      all += c.counts[k];
      is += k / classes == usual ? c.counts[k] : 0;
    }
    return is / all;
  };
  const std::string guess = usual == classes ? "" : told("majority_accuracy", share_of_usual);
  const std::string entities = entity_figures(predicted, rows, writer),
                    error = calibration(rows, classes, writer);
  if (!writer.is_full()) return;
  const std::string head = rows.size() == 0 ? "of evaluations added up, without intervals:" : writer.head();
  sink.text(
      head + "\n  " + predicted.accuracy + " " + accuracy +
      (guess.empty() ? "" : "  (always the most frequent class, " + predicted.usual + ": " + guess + ")") +
      "\n  Matthews' correlation " + mcc + "  macro F1 " + f1 +
      (roc.empty() ? "" : "  area under the ROC curve " + roc) +
      (error.empty() ? "" : "  calibration error " + error) + entities);
  Confusion all(classes);
  for (const auto& [group, sums] : by_group)
    for (const auto& [k, count] : sums) all.counts.at(k) += count;
  show_confusion(all, predicted.classes,
                 {.title = "What is right, and what is predicted",
                  .low_label = "0 of the right class",
                  .high_label = "all of it"},
                 sink);
}

// Each class by itself: it is there where its log-odds are above 0.
void tell_several(const Predicted& predicted, const Rows& rows, const Report& report,
                  const ReportSink& sink) {
  const FigureWriter writer(predicted, rows, report, sink);
  const size_t classes = predicted.classes.size();
  enum Sum : size_t { kCount, kExact, kRight, kSumCount };  // then of each class: both, in one, in the other
  SumsByGroup by_group;
  for (size_t row = 0; row < rows.size(); ++row) {
    auto& sums = by_group[rows.groups[row]];
    double right = 0;
    for (size_t k = 0; k < classes; ++k) {
      const bool is = rows.of(row, k) > 0, told = rows.of(row, classes + k) > 0;
      if (is && told) sums[kSumCount + 3 * k] += 1;
      if (is) sums[kSumCount + 3 * k + 1] += 1;
      if (told) sums[kSumCount + 3 * k + 2] += 1;
      right += is == told ? 1 : 0;
    }
    sums[kCount] += 1;
    sums[kExact] += right == static_cast<double>(classes) ? 1 : 0;
    sums[kRight] += right / static_cast<double>(classes);
  }
  // 2 x both / (one + the other): the harmonic mean of precision and recall.
  const auto micro = [&](const Sums& sums) {
    double both = 0, either = 0;
    for (size_t k = 0; k < classes; ++k) {
      const double* const of_class = &sums[kSumCount + 3 * k];
      both += of_class[0];
      either += of_class[1] + of_class[2];
    }
    return either > 0 ? 2 * both / either : 0;
  };
  const auto macro = [&](const Sums& sums) {
    double sum = 0, there = 0;
    for (size_t k = 0; k < classes; ++k) {
      const double* const of_class = &sums[kSumCount + 3 * k];
      if (of_class[1] == 0) continue;
      there += 1;
      sum += 2 * of_class[0] / (of_class[1] + of_class[2]);
    }
    return there > 0 ? sum / there : 0;
  };
  const auto area = [&](std::span<const size_t> which) -> std::optional<double> {
    double sum = 0, there = 0;
    for (size_t k = 0; k < classes; ++k) {
      std::vector<uint8_t> is;
      for (const size_t row : which) is.push_back(rows.of(row, k) > 0 ? 1 : 0);
      if (const auto one = area_under_roc(column(rows, which, classes + k), is)) sum += *one, there += 1;
    }
    return there == 0 ? std::nullopt : std::optional(sum / there);
  };
  const auto share = [](Sum which) {
    return [which](const Sums& sums) { return sums[which] / sums[kCount]; };
  };
  const auto told = [&](const char* name, const FigureOfSums& figure) {
    return writer.sums(name, PL_BETTER_HIGHER, by_group, kSumCount + 3 * classes, figure);
  };
  const std::string exact = told("exact_match", share(kExact)), accuracy = told("accuracy", share(kRight)),
                    micro_f1 = told("micro_f1", micro), macro_f1 = told("macro_f1", macro),
                    roc = writer.ranks("auroc", area, rows.size() * classes);
  if (!writer.is_full()) return;
  sink.text(writer.head() + "\n  all classes right " + exact + "  of single ones " + accuracy +
            "\n  micro F1 " + micro_f1 + "  macro F1 " + macro_f1 + "  area under the ROC curve " + roc);
}

void tell_contacts(const Predicted& predicted, const Rows& rows, const Report& report,
                   const ReportSink& sink) {
  const FigureWriter writer(predicted, rows, report, sink);
  const auto mean = [&](ContactFigure figure) -> Figure {
    return [&rows, figure](std::span<const size_t> which) -> std::optional<double> {
      double sum = 0, count = 0;
      for (const size_t row : which)
        if (const double value = rows.of(row, figure); !std::isnan(value)) sum += value, count += 1;
      return count == 0 ? std::nullopt : std::optional(sum / count);
    };
  };
  const auto told = [&](const char* name, ContactFigure figure) {
    return writer.ranks(name, mean(figure), rows.size());
  };
  // One by one, in the order in which they are shown.
  const std::string all_l = told("precision_at_L", kTopL), all_l2 = told("precision_at_L2", kTopL2),
                    all_l5 = told("precision_at_L5", kTopL5),
                    nearest = told("nearest_precision_at_L", kNearestL),
                    long_l = told("long_precision_at_L", kLongL),
                    long_l2 = told("long_precision_at_L2", kLongL2),
                    long_l5 = told("long_precision_at_L5", kLongL5), area = told("auroc", kArea);
  if (!writer.is_full()) return;
  sink.text(writer.head() + "\n  precision of the likeliest pairs at least " +
            std::to_string(residues::kLeastApart) + " apart: L " + all_l + "  L/2 " + all_l2 + "  L/5 " +
            all_l5 + "  (of the L nearest along the chain: " + nearest + ")\n  at least " +
            std::to_string(kLongRange) + " apart: L " + long_l + "  L/2 " + long_l2 + "  L/5 " + long_l5 +
            "\n  area under the ROC curve " + area);
}

}  // namespace

size_t Predicted::columns() const {
  switch (what) {
    case What::kContacts:
      return kContactFigures;
    case What::kNumbers:
      return 1;
    case What::kSeveral:
      return 2 * classes.size();
    case What::kClasses:
      break;
  }
  return 1 + classes.size();
}

std::string LabelRecord::pack() const {
  const uint64_t numbers = right.size();
  std::string bytes(files::bytes_of(group));
  return bytes.append(files::bytes_of(numbers))
      .append(files::bytes_of(right))
      .append(files::bytes_of(values));
}

LabelRecord LabelRecord::unpack(std::string_view bytes) {
  LabelRecord record;
  uint64_t numbers = 0;
  if (!files::take(bytes, record.group) || !files::take(bytes, numbers)) return record;
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

void send_predicted(const EvaluationSink& sink, const Predicted& predicted) {
  nlohmann::json sent{{"classes", predicted.classes},
                      {"usual", predicted.usual},
                      {"mean", predicted.mean},
                      {"deviation", predicted.deviation}};
  if (predicted.training_mean) sent["training_mean"] = *predicted.training_mean;
  sink.value(std::string(kPredicted) + sent.dump(), 0, 1);
}

void report_labels(const Predicted& asked, const Report& report, const ReportSink& sink) {
  using What = Predicted::What;
  Predicted predicted = asked;
  for (const EvaluationValue& value : report.values) {
    if (!value.group.empty() || !value.name.starts_with(kPredicted)) continue;
    const auto sent = nlohmann::json::parse(value.name.substr(kPredicted.size()));
    predicted.classes = sent.at("classes").get<std::vector<std::string>>();
    predicted.usual = sent.at("usual");
    predicted.mean = sent.at("mean");
    predicted.deviation = sent.at("deviation");
    if (sent.contains("training_mean")) predicted.training_mean = sent["training_mean"].get<double>();
    break;
  }
  const bool are_classes = predicted.what == What::kClasses && !predicted.classes.empty();
  const Rows rows(report, predicted.columns());
  if (rows.size() == 0 && !are_classes) {
    if (report.purpose == Purpose::kEvaluate)
      sink.text(
          "of evaluations that are added up the loss alone is told: the other figures need every prediction");
    return;
  }
  switch (predicted.what) {
    case What::kContacts:
      return tell_contacts(predicted, rows, report, sink);
    case What::kNumbers:
      return tell_numbers(predicted, rows, report, sink);
    case What::kSeveral:
      return tell_several(predicted, rows, report, sink);
    case What::kClasses:
      return tell_classes(predicted, rows, report, sink);
  }
}

}  // namespace pipeline::labels
