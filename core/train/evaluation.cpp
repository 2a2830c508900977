#include "core/train/evaluation.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "core/plugins/error.hpp"
#include "core/train/prefetcher.hpp"

namespace pipeline::train {
namespace {

struct Sum {
  std::string name;
  double sum = 0, weight = 0;
};

Sum& sum_of(std::vector<Sum>& sums, std::string_view name) {
  const auto found = std::find_if(sums.begin(), sums.end(), [&](const Sum& s) { return s.name == name; });
  return found != sums.end() ? *found : sums.emplace_back(Sum{std::string(name)});
}

double aggregate(const Sum& sum, uint32_t how) {
  if (how == PL_AGGREGATE_SUM) return sum.sum;
  const double mean = sum.weight > 0 ? sum.sum / sum.weight : std::nan("");
  return how == PL_AGGREGATE_EXP_MEAN ? std::exp(mean) : mean;
}

// The figures that the task describes, then those it reported without describing them (means).
std::vector<Figure> figures(const std::vector<Sum>& sums, const std::vector<plugins::Metric>& metrics) {
  std::vector<Figure> result;
  std::vector<std::string> described;
  const auto add = [&](const plugins::Metric& metric) {
    const std::string_view source = metric.source.empty() ? metric.name : metric.source;
    const auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& s) { return s.name == source; });
    if (sum == sums.end()) return;
    result.push_back({metric.name, aggregate(*sum, metric.aggregate), metric.better});
    described.push_back(metric.name);
  };
  const bool loss_described = std::any_of(metrics.begin(), metrics.end(), [](const auto& m) { return m.name == "loss"; });
  if (!loss_described) add({.name = "loss", .source = "", .help = ""});
  for (const plugins::Metric& metric : metrics) add(metric);
  for (const Sum& sum : sums)
    if (std::find(described.begin(), described.end(), sum.name) == described.end())
      result.push_back({sum.name, aggregate(sum, PL_AGGREGATE_MEAN), PL_BETTER_LOWER});
  return result;
}

}  // namespace

const Figure* Evaluation::find(std::string_view name) const {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

std::optional<Evaluation> evaluate(plugins::Task& task, const EvaluationRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t available = task.sample_count(request.split);
  const uint64_t total = request.samples == 0 ? available : std::min(request.samples, available);
  const auto sequence = [&](uint64_t index) -> std::optional<LoadRequest> {
    const uint64_t begin = index * request.batch, end = std::min(begin + request.batch, total);
    if (begin >= end) return std::nullopt;
    LoadRequest load;
    for (uint64_t id = begin; id < end; ++id) load.ids.push_back(id);
    return load;
  };
  Prefetcher batches(task,
                     {.split = request.split,
                      .purpose = request.purpose,
                      .workers = request.workers,
                      .ahead = 1 + request.workers * request.prefetch},
                     sequence);
  std::vector<Sum> sums;
  uint64_t shown = 0, done = 0;
  const plugins::EvaluationSink sink{.value =
                                         [&](std::string_view name, double sum, double weight) {
                                           Sum& entry = sum_of(sums, name);
                                           entry.sum += sum;
                                           entry.weight += weight;
                                         },
                                     .sample =
                                         [&](uint64_t id, std::string_view text) {
                                           if (shown++ < request.shown && request.show) request.show(id, text);
                                         }};
  while (std::optional<plugins::Batch> batch = batches.next()) {
    if (request.cancelled && request.cancelled()) return std::nullopt;
    pl_evaluate_args args{};
    args.purpose = request.purpose;
    args.stream = request.stream;
    args.sample_limit = request.shown > shown ? request.shown - shown : 0;
    task.evaluate(*batch, args, sink);
    done += batch->info().samples;
    if (request.progress) request.progress(done, total);
  }
  Evaluation result;
  result.figures = figures(sums, task.metrics());
  result.samples = done;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

uint32_t split_code(std::string_view name) {
  if (name == "train") return PL_SPLIT_TRAIN;
  if (name == "val") return PL_SPLIT_VAL;
  if (name == "test") return PL_SPLIT_TEST;
  throw Error(PL_ERROR_CONFIG, fmt::format("split '{}': must be train, val or test", name));
}

std::string_view split_name(uint32_t code) { return code == PL_SPLIT_TRAIN ? "train" : code == PL_SPLIT_VAL ? "val" : "test"; }

}  // namespace pipeline::train
