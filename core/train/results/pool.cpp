#include "core/train/results/pool.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/train/results/side_files.hpp"

namespace pipeline::train {
namespace {

using Groups = std::set<std::string_view>;

Groups groups_of(const KeptEvaluation& evaluation) {
  Groups groups;
  for (const plugins::EvaluationValue& value : evaluation.sums.values)
    if (!value.group.empty()) groups.insert(value.group);
  return groups;
}

template <class... Parts>
[[noreturn]] void fail(fmt::format_string<const Parts&...> problem, const Parts&... parts) {
  throw Error(PL_ERROR_CONFIG, fmt::format(problem, parts...));
}

bool same_figures(const plugins::Metric& a, const plugins::Metric& b) {
  return a.name == b.name && a.source == b.source && a.aggregate == b.aggregate && a.better == b.better;
}

void require_whole(const KeptEvaluation& one) {
  if (one.sums.samples < one.sums.available)
    fail(
        "{}: is of {} of the split's {} samples, cut by evaluate.max_samples, and only whole evaluations are "
        "added up: set "
        "evaluate.max_samples = 0 for the stage '{}' and run it again",
        one.figures.string(), one.sums.samples, one.sums.available, one.stage);
}

void require_sums(const KeptEvaluation& one) {
  if (one.sums.records > 0)
    fail(
        "{}: what its task reports needs {} records of samples, which are not kept, so it cannot be added "
        "up: leave the stage '{}' out",
        one.figures.string(), one.sums.records, one.stage);
}

void require_alike(const KeptEvaluation& first, const KeptEvaluation& other) {
  if (first.sums.split != other.sums.split)
    fail("{} is of the split {}, {} of {}: only evaluations of one split are added up",
         first.figures.string(), split_name(first.sums.split), other.figures.string(),
         split_name(other.sums.split));
  if (!std::ranges::equal(first.sums.metrics, other.sums.metrics, same_figures))
    fail(
        "{} and {} have other figures or compute them otherwise: give the stages '{}' and '{}' the same task "
        "and task options, but for the "
        "part of the data",
        first.figures.string(), other.figures.string(), first.stage, other.stage);
}

void require_different(const KeptEvaluation& one, const Groups& ones, const KeptEvaluation& other,
                       const Groups& others) {
  std::vector<std::string_view> both;
  std::ranges::set_intersection(ones, others, std::back_inserter(both));
  if (both.empty()) return;
  const std::string more = both.size() == 1 ? "" : fmt::format(" (and {} more)", both.size() - 1);
  fail(
      "{} and {} both scored {}{}: each part of the data may be counted once: have the stages '{}' and '{}' "
      "evaluate different parts, or "
      "leave one of them out",
      one.figures.string(), other.figures.string(), both.front(), more, one.stage, other.stage);
}

}  // namespace

KeptEvaluation read_evaluation(std::string stage, std::filesystem::path figures) {
  const std::string remedy = fmt::format("run the stage '{0}' again, with --stage {0} --fresh", stage);
  KeptSums sums = read_sums(side_files_of(figures) / plugins::kSumsFile, remedy);
  return {std::move(stage), std::move(figures), std::move(sums)};
}

void require_poolable(const std::vector<KeptEvaluation>& evaluations) {
  std::vector<Groups> groups;
  for (const KeptEvaluation& one : evaluations) {
    require_whole(one);
    require_sums(one);
    require_alike(evaluations.front(), one);
    groups.push_back(groups_of(one));
  }
  for (size_t other = 0; other < evaluations.size(); ++other)
    for (size_t one = 0; one < other; ++one)
      require_different(evaluations[one], groups[one], evaluations[other], groups[other]);
}

std::vector<std::string> doubts_about(const std::vector<KeptEvaluation>& evaluations) {
  std::vector<std::string> doubts;
  for (const KeptEvaluation& one : evaluations) {
    if (groups_of(one).empty() && evaluations.size() > 1)
      doubts.push_back(
          fmt::format("{}: does not say which parts of the data it scored, so it cannot be seen whether one "
                      "is counted twice",
                      one.figures.string()));
    for (const plugins::EvaluationValue& value : one.sums.values)
      if (!std::isfinite(value.sum) || !std::isfinite(value.weight))
        doubts.push_back(fmt::format(
            "{}: '{}' is {} with weight {}, so what is computed from it is no number: see the stage '{}'",
            one.figures.string(), value.name, value.sum, value.weight, one.stage));
  }
  return doubts;
}

Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations) {
  EvaluationSums sums;
  uint64_t samples = 0;
  for (const KeptEvaluation& one : evaluations) {
    for (const plugins::EvaluationValue& value : one.sums.values) sums.add(value);
    samples += one.sums.samples;
  }
  const KeptSums& first = evaluations.front().sums;
  Evaluation result = conclude(task, first.split, PL_PURPOSE_EVALUATE, sums, first.metrics, {});
  result.samples = result.available = samples;
  return result;
}

}  // namespace pipeline::train
