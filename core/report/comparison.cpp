#include "core/report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/observe/format.hpp"
#include "core/report/table.hpp"

namespace pipeline::report {
namespace {

// Whether the key says where a run lies or what it is called, which is no difference between runs.
bool is_place(std::string_view key) {
  return key == "run.dir" || key == "run.name" || key == "run.cache_dir" || key.starts_with("observe.");
}

bool is_of_plugin(std::string_view key) {
  return key.starts_with("strategy.") || key.starts_with("backend.") || key.starts_with("task.");
}

// Whether runs with different values of it are not meant to have the same losses.
bool decides(std::string_view key) {
  constexpr std::string_view kOthers[] = {"strategy.", "backend.", "plugins.", "launch.", "observe.",
                                          "checkpoint.", "evaluate.", "export.", "stage.",
                                          // run
                                          "run.device", "run.reproducible", "run.dir", "run.name",
                                          "run.cache_dir", "loader.workers", "loader.processes",
                                          "loader.prefetch", "loader.pin_memory", "train.micro_batch",
                                          "train.accumulation_steps", "train.activation_checkpointing",
                                          "train.precision", "train.frozen_precision",
                                          // what tasks show and score
                                          "task.ask.", "task.generate.", "task.rouge."};
  return std::ranges::none_of(kOthers, [&](std::string_view start) { return key.starts_with(start); });
}

std::string deciding_differences(const RunRecord& run, const RunRecord& reference) {
  std::string keys;
  for (const auto& [key, value] : run.options) {
    const auto other = reference.options.find(key);
    if (other == reference.options.end() || other->second == value) continue;
    const bool is_diloco = value == "\"diloco\"" || other->second == "\"diloco\"";
    if (!decides(key) && !(key == "strategy.plugin" && is_diloco)) continue;
    keys += (keys.empty() ? "" : ", ") + key;
  }
  return keys;
}

std::string shown(const RunRecord::Best& best) {
  return fmt::format("{} {:.6g} at step {}", best.metric, best.value, best.step);
}

// Which runs are better, where some have other options: by their best evaluations, and behind them those
// without one by their last losses.
std::string ranked(const Comparison& comparison, bool is_brief) {
  struct Place {
    std::string name, shown;
    bool is_evaluated;
    double value;
  };
  std::vector<Place> places;
  std::optional<RunRecord::Best> by;
  bool has_others = false;
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    has_others |= comparison.verdicts[i].kind == LossVerdict::Kind::other;
    if (!by) by = comparison.runs[i].best();
  }
  if (!has_others) return "";
  for (const RunRecord& run : comparison.runs) {
    const std::vector<double>* const loss = run.training.find("loss");
    if (run.made != RunRecord::Made::yes || loss == nullptr || loss->empty()) continue;
    if (const auto best = run.best(); best && best->metric == by->metric)
      places.push_back({run.name, shown(*best), true, by->higher_is_better ? -best->value : best->value});
    else
      places.push_back({run.name, fmt::format("last loss {:.6g}", loss->back()), false, loss->back()});
  }
  // What is no number comes last.
  const auto order = [](const Place& one) {
    return std::tuple(!one.is_evaluated, std::isnan(one.value), std::isnan(one.value) ? 0 : one.value);
  };
  std::ranges::stable_sort(places, {}, order);
  if (places.empty()) return "";
  if (is_brief) return fmt::format("Best: {} ({}).", places[0].name, places[0].shown);
  std::string text = "Best first:";
  for (size_t i = 0; i < places.size(); ++i)
    text += fmt::format("{} {} ({})", i == 0 ? "" : ",", places[i].name, places[i].shown);
  return text + ".";
}

double relative_difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b) / std::max(std::abs(b), std::numeric_limits<double>::min());
}

// Shares of rank 0's time.
std::string time_split(const RunRecord& run) {
  if (!run.summary.contains("ranks")) return "";
  std::string text;
  const auto& seconds = run.summary.at("ranks").at(0).at("seconds");
  double all = 0;
  for (const auto& [name, value] : seconds.items()) all += value.get<double>();
  for (const auto& [name, value] : seconds.items())
    if (const double share = 100 * value.get<double>() / std::max(all, 1e-9); share >= 0.5)
      text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name, share);
  if (const auto straggler = run.straggler())
    text +=
        fmt::format("; rank {} works {:.0f}% longer than the mean", straggler->rank, 100 * straggler->excess);
  if (const auto use = run.device_use()) {
    text += fmt::format("; devices busy {:.0f}%", 100 * use->mean);
    if (use->mean - use->least >= 0.01)
      text += fmt::format(", that of rank {} {:.0f}%", use->least_rank, 100 * use->least);
    text += fmt::format(", {} of memory in use", observe::human_bytes(use->memory));
  }
  return text;
}

}  // namespace

LossVerdict compare_losses(const Curve& run, const Curve& reference, double tolerance) {
  LossVerdict verdict;
  const std::vector<double>*mine = run.find("loss"), *theirs = reference.find("loss");
  for (size_t i = 0, j = 0;
       mine != nullptr && theirs != nullptr && i < run.steps.size() && j < reference.steps.size();) {
    if (run.steps[i] != reference.steps[j]) {
      (run.steps[i] < reference.steps[j] ? i : j) += 1;
      continue;
    }
    const uint64_t step = run.steps[i];
    const double loss = (*mine)[i++], other = (*theirs)[j++];
    const double difference = relative_difference(loss, other);
    ++verdict.steps;
    if (difference == 0 && !std::isfinite(loss) && verdict.not_finite++ == 0) verdict.first_not_finite = step;
    if (difference > 0 && !verdict.first) verdict.first = step;
    if (difference > tolerance && !verdict.first_beyond) verdict.first_beyond = step;
    if (difference > verdict.difference) {
      verdict.difference = difference;
      verdict.largest_at = step;
      verdict.loss_there = loss;
      verdict.reference_there = other;
    }
  }
  verdict.kind = verdict.steps == 0        ? LossVerdict::Kind::nothing_in_common
                 : verdict.first_beyond    ? LossVerdict::Kind::differs
                 : verdict.difference == 0 ? LossVerdict::Kind::equal
                                           : LossVerdict::Kind::within;
  return verdict;
}

std::string describe(const LossVerdict& verdict) {
  const std::string same_but_not_finite =
      verdict.not_finite == 0 ? ""
                              : fmt::format("; in {} of them both are not finite, first at step {}",
                                            verdict.not_finite, verdict.first_not_finite);
  switch (verdict.kind) {
    case LossVerdict::Kind::reference:
      return "the reference";
    case LossVerdict::Kind::equal:
      return fmt::format("equal to the bit in {} steps{}", verdict.steps, same_but_not_finite);
    case LossVerdict::Kind::within:
      return fmt::format("same: within {:.1e}, first differs at step {}{}", verdict.difference,
                         *verdict.first, same_but_not_finite);
    case LossVerdict::Kind::differs:
      if (std::isinf(verdict.difference))
        return fmt::format("DIFFERS: {:.6g} against {:.6g} at step {}, beyond the tolerance from step {}",
                           verdict.loss_there, verdict.reference_there, verdict.largest_at,
                           *verdict.first_beyond);
      return fmt::format("DIFFERS: by {:.1e} at step {}, beyond the tolerance from step {}",
                         verdict.difference, verdict.largest_at, *verdict.first_beyond);
    case LossVerdict::Kind::other:
      return "another run: " + verdict.other;
    case LossVerdict::Kind::nothing_in_common:
      return "NOT COMPARED: no step with a loss in both";
  }
  return "";
}

Comparison compare(std::vector<RunRecord> runs, double tolerance) {
  std::ranges::stable_sort(runs, {}, &RunRecord::made);
  Comparison comparison{.tolerance = tolerance, .runs = std::move(runs)};
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    LossVerdict& verdict = comparison.verdicts.emplace_back();
    if (i == 0) continue;
    verdict = compare_losses(comparison.runs[i].training, comparison.runs[0].training, tolerance);
    verdict.other = deciding_differences(comparison.runs[i], comparison.runs[0]);
    if (!verdict.other.empty() && !verdict.is_same()) verdict.kind = LossVerdict::Kind::other;
  }
  return comparison;
}

Comparison read_stages(const std::filesystem::path& folder) {
  Comparison stages;
  std::vector<std::filesystem::path> folders = find_stages(folder);
  if (folders.empty() && has_results(folder)) folders = {folder};  // of predict or evaluate alone
  if (folders.empty()) folders = run_folders(folder);              // which says what is wrong
  for (const std::filesystem::path& stage : folders) {
    stages.runs.push_back(read_run(stage, stage.lexically_normal().filename().string()));
    stages.verdicts.emplace_back();
  }
  return stages;
}

std::string Comparison::verdict(size_t run) const {
  const RunRecord& record = runs[run];
  if (record.made == RunRecord::Made::yes) return describe(verdicts[run]);
  const bool failed = record.made == RunRecord::Made::failed;
  std::string text = fmt::format("{}: {}", failed ? "FAILED" : "not run", record.why_not);
  if (run > 0 && verdicts[run].steps > 0) text += "; until then " + describe(verdicts[run]);
  return text;
}

bool Comparison::is_same(size_t run) const {
  return runs[run].made == RunRecord::Made::no ||
         (runs[run].made == RunRecord::Made::yes && verdicts[run].is_same());
}

bool Comparison::all_same() const {
  for (size_t i = 0; i < runs.size(); ++i)
    if (!is_same(i)) return false;
  return true;
}

std::optional<double> Comparison::efficiency(size_t run) const {
  const double mine = runs[run].throughput(), reference = runs[0].throughput();
  const auto my_processes = static_cast<double>(runs[run].processes()),
             processes = static_cast<double>(runs[0].processes());
  if (mine <= 0 || reference <= 0 || my_processes <= 0 || processes <= 0) return std::nullopt;
  return mine / my_processes / (reference / processes);
}

std::vector<Comparison::Difference> Comparison::differences() const {
  std::set<std::string> keys;
  for (const RunRecord& run : runs)
    for (const auto& [key, unused] : run.options)
      if (!is_place(key)) keys.insert(key);
  std::vector<Difference> result;
  for (const std::string& key : keys) {
    Difference difference{.key = key};
    std::set<std::string> seen;
    for (const RunRecord& run : runs) {
      const auto found = run.options.find(key);
      const bool has = found != run.options.end();
      difference.values.push_back(has ? found->second : "");
      // What a run does not have because its plugin is another one, is no difference of its own.
      if (has || (!run.options.empty() && !is_of_plugin(key))) seen.insert(difference.values.back());
    }
    if (seen.size() > 1) result.push_back(std::move(difference));
  }
  return result;
}

std::string conclusion(const Comparison& comparison, bool is_brief) {
  size_t made = 0;
  bool same = true;
  std::vector<std::string> failed;
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    if (comparison.runs[i].made == RunRecord::Made::failed) failed.push_back(comparison.runs[i].name);
    if (comparison.runs[i].made != RunRecord::Made::yes ||
        comparison.verdicts[i].kind == LossVerdict::Kind::other)
      continue;
    ++made;
    same &= comparison.is_same(i);
  }
  const std::string order = ranked(comparison, is_brief);
  std::string text = made < 2 ? order.empty() ? "NOT COMPARED: there are no two runs with losses." : order
                              : fmt::format("The losses{} are {}the same (tolerance {:g}, relative).",
                                            failed.empty() ? "" : " of the runs that did not fail",
                                            same ? "" : "NOT ", comparison.tolerance);
  if (made >= 2 && !order.empty()) text += "\n" + order;
  if (!failed.empty()) text += fmt::format("\nFailed: {}.", fmt::join(failed, ", "));
  return text;
}

std::string table(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows{
      {"run", "steps", "last loss", "best", "per second", "speed", "efficiency", "memory a rank", "loss"}};
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const RunRecord& run = comparison.runs[i];
    const std::vector<double>* const loss = run.training.find("loss");
    const double rate = run.throughput(), reference = comparison.runs[0].throughput();
    const auto efficiency = comparison.efficiency(i);
    const bool has_steps = run.made == RunRecord::Made::yes || !run.training.steps.empty();
    rows.push_back({run.name,
                    has_steps ? std::to_string(run.last_step()) + (run.finished ? "" : " so far") : "",
                    loss == nullptr || loss->empty() ? "" : fmt::format("{:.6g}", loss->back()),
                    run.best() ? shown(*run.best()) : "", rate > 0 ? observe::human_count(rate) : "",
                    rate > 0 && reference > 0 ? fmt::format("{:.2f}x", rate / reference) : "",
                    efficiency ? fmt::format("{:.0f}%", 100 * *efficiency) : "",
                    run.peak_host_memory() > 0 ? observe::human_bytes(run.peak_host_memory()) : "",
                    comparison.verdict(i)});
  }
  std::string text = aligned(rows);
  std::vector<std::vector<std::string>> splits;
  for (const RunRecord& run : comparison.runs)
    if (std::string split = time_split(run); !split.empty())
      splits.push_back({"  " + run.name, std::move(split)});
  if (!splits.empty()) text += "\ntime of rank 0\n" + aligned(splits);
  if (const auto differences = comparison.differences(); !differences.empty()) {
    std::vector<std::vector<std::string>> options;
    for (const Comparison::Difference& difference : differences) {
      options.push_back({"  " + difference.key});
      for (const std::string& value : difference.values)
        options.back().push_back(value.empty() ? "-" : value);
    }
    text += "\noptions that differ\n" + aligned(options);
  }
  return text + "\n" + conclusion(comparison) + "\n";
}

}  // namespace pipeline::report
