#include "core/train/step_exchange.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace pipeline::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricSum, name, sum, weight)

namespace {

StepFacts sum(std::vector<MicroBatchFacts> facts) {
  std::ranges::sort(facts, {}, &MicroBatchFacts::index);
  StepFacts total;
  total.flops = 0;
  for (const MicroBatchFacts& f : facts) {
    total.weight += f.weight;
    total.samples.resize(f.index + 1);
    total.samples[f.index] = f.samples;
    total.tokens += f.tokens;
    total.positions += f.positions;
    total.flops = total.flops && f.flops ? std::optional(*total.flops + *f.flops) : std::nullopt;
  }
  return total;
}

void add_from(const nlohmann::json& metrics, std::vector<MetricSum>& sums) {
  for (const nlohmann::json& metric : metrics) add(sums, metric);
}

}  // namespace

StepFacts sum_over_ranks(ProcessGroup& processes, std::span<const MicroBatchFacts> mine) {
  if (processes.world().size == 1) return sum({mine.begin(), mine.end()});
  nlohmann::json json = nlohmann::json::array();
  for (const MicroBatchFacts& f : mine)
    json.push_back({f.index, f.weight, f.samples, f.tokens, f.positions,
                    f.flops ? nlohmann::json(*f.flops) : nlohmann::json()});
  std::vector<MicroBatchFacts> all;
  for (const nlohmann::json& rank : processes.exchange("step", json))
    for (const nlohmann::json& f : rank)
      all.push_back({.index = f[0],
                     .weight = f[1],
                     .samples = f[2],
                     .tokens = f[3],
                     .positions = f[4],
                     .flops = f[5].is_null() ? std::nullopt : std::optional<double>(f[5])});
  return sum(std::move(all));
}

std::vector<MetricSum> add_up(ProcessGroup& processes, const std::vector<MetricSum>& mine) {
  if (processes.world().size == 1) return mine;
  std::vector<MetricSum> all;
  for (const nlohmann::json& rank : processes.exchange("metrics", mine)) add_from(rank, all);
  return all;
}

Boundary agree(ProcessGroup& processes, const Boundary& mine) {
  if (processes.world().size == 1) return mine;
  Boundary all;
  bool first = true;
  for (const nlohmann::json& rank :
       processes.exchange("boundary", {mine.signal, mine.time_is_up, mine.save, mine.data_wait, mine.metrics,
                                       mine.has_late, mine.late_metrics, mine.lost})) {
    if (all.signal == 0) all.signal = rank[0];
    if (std::exchange(first, false)) {
      all.time_is_up = rank[1];
      all.save = rank[2];
      all.lost = rank[7];
    }
    all.data_wait = std::max(all.data_wait, rank[3].get<double>());
    add_from(rank[4], all.metrics);
    all.has_late = all.has_late || rank[5].get<bool>();
    add_from(rank[6], all.late_metrics);
  }
  return all;
}

}  // namespace pipeline::train
