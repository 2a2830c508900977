// The figures of a report, over the labels of all samples or over sums of each group. For report.cpp alone.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plugins/data/files/texts.hpp"
#include "plugins/scores/intervals/interval.hpp"
#include "plugins/scores/labels/figure.hpp"
#include "plugins/scores/labels/report.hpp"

namespace pipeline::labels {

// Labels of all samples, laid end to end.
struct Rows {
  std::vector<uint64_t> groups;  // of each label
  std::vector<float> values;
  std::vector<double> right;  // of numbers
  size_t columns;

  Rows(const Report& report, size_t row) : columns(row) {
    for (const EvaluationRecord& one : report.records) {
      if (one.key != LabelRecord::kKey) continue;
      const LabelRecord record = LabelRecord::unpack(one.bytes);
      groups.insert(groups.end(), record.values.size() / columns, record.group);
      values.insert(values.end(), record.values.begin(), record.values.end());
      right.insert(right.end(), record.right.begin(), record.right.end());
    }
  }
  size_t size() const { return groups.size(); }
  double of(size_t row, size_t column) const { return static_cast<double>(values[row * columns + column]); }
};

// A figure of some rows, each counted as often as it is named.
using Figure = std::function<std::optional<double>(std::span<const size_t>)>;

// What is added up, and of each group what of it is not 0; a figure of such sums.
using Sums = std::vector<double>;
using SumsByGroup = std::map<uint64_t, std::map<size_t, double>>;
using FigureOfSums = std::function<double(const Sums&)>;

inline std::vector<size_t> up_to(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

// Writes figures, in a full evaluation with intervals, where 1,000 draws do not take long: a draw costs as
// much as the figure itself.
class FigureWriter {
 public:
  FigureWriter(const Predicted& predicted, const Rows& rows, const Report& report, const ReportSink& sink)
      : predicted_(predicted), rows_(rows), sink_(sink), is_full_(report.purpose == Purpose::kEvaluate) {}

  // A figure as text, "0.512 [0.431, 0.580]", and to the sink. cost: of one, in values that are sorted.
  std::string ranks(const char* name, const Figure& figure, size_t cost) const {
    const std::optional<double> value = figure(up_to(rows_.size()));
    const bool has_interval = is_full_ && cost <= intervals::kMostResampled;
    return write(name, PL_BETTER_HIGHER, value,
                 value && has_interval ? intervals::resampled(rows_.groups, figure) : std::nullopt);
  }
  // size: how many sums there are.
  std::string sums(const char* name, uint32_t better, const SumsByGroup& by_group, size_t size,
                   const FigureOfSums& figure) const {
    std::vector<const std::map<size_t, double>*> all;
    std::vector<uint64_t> groups;
    size_t cost = size;
    for (const auto& [group, one] : by_group) {
      all.push_back(&one);
      groups.push_back(group);
      cost += one.size();
    }
    const auto of = [&](std::span<const size_t> which) {
      Sums added(size);
      for (const size_t group : which)
        for (const auto& [k, value] : *all[group]) added[k] += value;
      return std::optional(figure(added));
    };
    return write(name, better, of(up_to(all.size())),
                 is_full_ && cost <= kMostAdded ? intervals::resampled(groups, of) : std::nullopt);
  }
  std::string head() const {
    const size_t groups = std::set(rows_.groups.begin(), rows_.groups.end()).size();
    const bool are_alone = groups == rows_.size();
    return files::counted(rows_.size(), predicted_.noun) +
           (are_alone ? "" : " in " + files::counted(groups, predicted_.group)) +
           (groups < 2 ? ": too few for intervals" : "; 95% intervals over these:");
  }
  bool is_full() const { return is_full_; }

 private:
  static constexpr size_t kMostAdded = 1'000'000;

  std::string write(const char* name, uint32_t better, const std::optional<double>& value,
                    const std::optional<intervals::Interval>& bounds) const {
    return value ? write_figure(sink_, name, better, *value, bounds) : "none";
  }

  const Predicted& predicted_;
  const Rows& rows_;
  const ReportSink& sink_;
  bool is_full_;
};

}  // namespace pipeline::labels
