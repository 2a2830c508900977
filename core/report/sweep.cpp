#include "core/report/sweep.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/files.hpp"
#include "core/report/comparison.hpp"
#include "core/report/page.hpp"
#include "core/report/run_record.hpp"
#include "core/report/table.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

PointScore score_of(const SweptPoint& point, const std::vector<double>& values) {
  PointScore score{.runs = values.size(), .is_whole = values.size() == point.runs.size()};
  for (const double value : values) score.mean += value / static_cast<double>(values.size());
  for (const double value : values) score.deviation += (value - score.mean) * (value - score.mean);
  score.deviation =
      values.size() < 2 ? 0 : std::sqrt(score.deviation / static_cast<double>(values.size() - 1));
  return score;
}

std::optional<RunRecord::Best> best_of(const SweptRun& run) {
  const fs::path summary = run.folder / "summary.json";
  if (!is_there(summary)) return std::nullopt;
  RunRecord record;
  record.summary = read_summary(summary);
  return record.best();
}

PointScore best_score(const SweptPoint& point, const std::string& figure) {
  std::vector<double> values;
  for (const SweptRun& run : point.runs)
    if (const auto best = best_of(run); best && best->metric == figure && run.problem.empty())
      values.push_back(best->value);
  return score_of(point, values);
}

std::string state_of(const SweptPoint& point) {
  for (const SweptRun& run : point.runs)
    if (!run.problem.empty())
      return run.name +
             (report::state_of(run.folder) == RunState::diverged ? " has diverged" : ": " + run.problem);
  if (point.stopped_at) return fmt::format("left at step {}", *point.stopped_at);
  for (const SweptRun& run : point.runs)
    if (report::state_of(run.folder) != RunState::finished) return "not finished";
  return "finished";
}

std::string words(const Sweep& sweep, const SweptPoint& point) {
  std::vector<std::string> all;
  for (size_t i = 0; i < sweep.keys.size(); ++i) all.push_back(sweep.keys[i] + " = " + point.values[i]);
  return all.empty() ? "the configuration" : fmt::format("{}", fmt::join(all, ", "));
}

std::string shown(const PointScore& score) {
  if (score.runs == 0) return "none";
  return fmt::format("{:.5g}", score.mean) +
         (score.runs > 1 ? fmt::format(" ± {:.2g}", score.deviation) : "");
}

// The 0.975 quantile of Student's t.
double t_quantile(double freedom) {
  constexpr double kQuantiles[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  const auto whole = static_cast<size_t>(std::max(1.0, freedom));
  return whole <= std::size(kQuantiles) ? kQuantiles[whole - 1] : 1.96 + 2.5 / freedom;
}

// Whether two means are as near as chance may bring them, in 95 of 100 cases (Welch's test).
bool are_near(const PointScore& a, const PointScore& b) {
  if (a.runs < 2 || b.runs < 2) return false;
  const auto square = [](double x) { return x * x; };
  const auto variance = [&](const PointScore& one) {
    return square(one.deviation) / static_cast<double>(one.runs);
  };
  const double of_a = variance(a), of_b = variance(b), both = of_a + of_b;
  if (both == 0) return a.mean == b.mean;
  const double freedom = square(both) / (square(of_a) / static_cast<double>(a.runs - 1) +
                                         square(of_b) / static_cast<double>(b.runs - 1));
  return std::abs(a.mean - b.mean) <= t_quantile(freedom) * std::sqrt(both);
}

std::string verdict_of(const Sweep& sweep, const Ranking& ranking) {
  const RankedPoint& first = ranking.points.front();
  if (first.best.runs == 0) return fmt::format("No run has an evaluation with {}.", sweep.figure);
  std::string text =
      fmt::format("Best: {}, with {} {}.", words(sweep, *first.point), sweep.figure, shown(first.best));
  if (first.best.runs < 2)
    return text + " One seed each: what chance does is not known (--repeat 3 shows it).";
  std::vector<std::string> near;
  for (size_t i = 1; i < ranking.points.size(); ++i)
    if (ranking.points[i].is_near) near.push_back(words(sweep, *ranking.points[i].point));
  const auto came_as_far = [&](const RankedPoint& one) {
    return one.best.runs > 0 && one.point->stopped_at == first.point->stopped_at;
  };
  if (std::ranges::count_if(ranking.points, came_as_far) < 2) return text + " No other came as far.";
  if (near.empty())
    return text + " Those that came as far are worse by more than chance does, or have failed.";
  return text + fmt::format(" As good, as far as seeds tell: {}.", fmt::join(near, "; "));
}

}  // namespace

PointScore score_at(const SweptPoint& point, const std::string& figure, uint64_t step) {
  std::vector<double> values;
  for (const SweptRun& run : point.runs) {
    const fs::path file = run.folder / "eval.jsonl";
    if (!run.problem.empty() || !is_there(file)) continue;
    const Curve evaluations = read_curve(file);
    const std::vector<double>* const column = evaluations.find(figure);
    if (column == nullptr) continue;
    for (size_t i = evaluations.steps.size(); i-- > 0;) {
      if (evaluations.steps[i] > step) continue;
      if (std::isfinite((*column)[i])) values.push_back((*column)[i]);
      break;
    }
  }
  return score_of(point, values);
}

bool higher_is_better(const Sweep& sweep) {
  for (const SweptPoint& point : sweep.points)
    for (const SweptRun& run : point.runs)
      if (const auto best = best_of(run); best && best->metric == sweep.figure) return best->higher_is_better;
  return false;
}

bool ranks_before(const PointScore& a, const PointScore& b, bool higher_is_better) {
  if (a.runs == 0 || b.runs == 0) return a.runs > 0 && b.runs == 0;
  if (a.is_whole != b.is_whole) return a.is_whole;
  return higher_is_better ? a.mean > b.mean : a.mean < b.mean;
}

Ranking rank(const Sweep& sweep) {
  Ranking ranking{.higher_is_better = higher_is_better(sweep)};
  for (const SweptPoint& point : sweep.points)
    ranking.points.push_back(
        {.point = &point, .best = best_score(point, sweep.figure), .state = state_of(point)});
  std::ranges::stable_sort(ranking.points, [&](const RankedPoint& a, const RankedPoint& b) {
    const uint64_t left_a = a.point->stopped_at.value_or(UINT64_MAX),
                   left_b = b.point->stopped_at.value_or(UINT64_MAX);
    if (left_a != left_b && (a.best.runs > 0) == (b.best.runs > 0)) return left_a > left_b;
    return ranks_before(a.best, b.best, ranking.higher_is_better);
  });
  for (size_t i = 1; i < ranking.points.size(); ++i) {
    RankedPoint& one = ranking.points[i];
    const RankedPoint& first = ranking.points.front();
    one.is_near = one.point->stopped_at == first.point->stopped_at && are_near(one.best, first.best);
  }
  ranking.verdict = verdict_of(sweep, ranking);
  return ranking;
}

std::string table(const Sweep& sweep, const Ranking& ranking) {
  std::vector<std::vector<std::string>> rows{sweep.keys};
  for (const char* head : {"runs", "best", "state", "folder"}) rows[0].emplace_back(head);
  rows[0][sweep.keys.size() + 1] = "best " + sweep.figure;
  for (const RankedPoint& one : ranking.points) {
    std::vector<std::string> row = one.point->values;
    row.push_back(std::to_string(one.best.runs));
    row.push_back(shown(one.best));
    row.push_back(one.state);
    row.push_back(one.point->runs.front().folder.string());
    rows.push_back(std::move(row));
  }
  return aligned(rows) + "\n" + ranking.verdict + "\n";
}

std::string page(const Sweep& sweep, const Ranking& ranking, const std::string& title) {
  constexpr size_t kMostCurves = 12;  // which can be told apart
  Comparison curves;
  Json points = Json::array();
  for (const RankedPoint& one : ranking.points) {
    points.push_back({{"values", one.point->values},
                      {"figure", one.best.runs > 0 ? Json(one.best.mean) : Json()},
                      {"shown", shown(one.best)},
                      {"state", one.state},
                      {"near", one.is_near},
                      {"folder", one.point->runs.front().folder.string()}});
    for (const SweptRun& run : one.point->runs) {
      if (curves.runs.size() >= kMostCurves || !has_steps(run.folder)) continue;
      curves.runs.push_back(read_run(run.folder, run.name));
      curves.verdicts.emplace_back();
    }
  }
  Json data = page_data(curves, title, /*compared=*/false);
  data["verdict"] = ranking.verdict;
  data["same"] = true;
  data["panels"] = Json::array();  // of each run's own page
  for (const Comparison::Difference& difference : curves.differences())
    data["differences"].push_back({{"key", difference.key}, {"values", difference.values}});
  data["sweep"] = {{"keys", sweep.keys},
                   {"figure", sweep.figure},
                   {"better", ranking.higher_is_better ? "higher" : "lower"},
                   {"points", points}};
  return page_with(data.dump(-1, ' ', false, Json::error_handler_t::replace), title);
}

}  // namespace pipeline::report
