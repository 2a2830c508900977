#include "plugins/scores/labels/confusion.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/base/csv.hpp"

namespace pipeline::labels {
namespace {

constexpr std::string_view kConfusion = "confusion/";

}  // namespace

void send_confusion(const EvaluationSink& sink, const Confusion& confusion) {
  for (size_t k = 0; k < confusion.counts.size(); ++k)
    if (confusion.counts[k] > 0)
      sink.value(std::string(kConfusion) + std::to_string(k), confusion.counts[k], 1);
}

std::map<size_t, double> sent_confusion(const Report& report) {
  std::map<size_t, double> counts;
  for (const EvaluationValue& value : report.values)
    if (value.group.empty() && value.name.starts_with(kConfusion))
      counts[std::stoul(std::string(value.name.substr(kConfusion.size())))] += value.sum;
  return counts;
}

void show_confusion(const Confusion& confusion, const std::vector<std::string>& classes, figures::HeatMap map,
                    const ReportSink& sink) {
  constexpr size_t kMostShown = 40, kLongest = 2;  // longer names would run into each other in the picture
  const bool by_number =
      std::ranges::any_of(classes, [](const std::string& name) { return name.size() > kLongest; });
  if (by_number) map.title += "; classes in the order of confusion.csv";
  map.row_title = "right";
  map.column_title = "predicted";
  std::string csv = "right";
  for (const std::string& name : classes) csv += "," + csv_field(name);
  csv += "\n";
  for (size_t right = 0; right < classes.size(); ++right) {
    csv += csv_field(classes[right]);
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

}  // namespace pipeline::labels
