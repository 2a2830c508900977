#include "core/train/step_reports.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"

namespace pipeline::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricSum, name, sum, weight)

namespace {

void add_means(const std::vector<MetricSum>& metrics, StepRecord& record) {
  for (const MetricSum& metric : metrics) {
    const bool is_count = metric.weight == 0 && metric.sum != 0 && metric.name != kDeviceUtilisation;
    if (metric.weight <= 0 && !is_count) continue;
    if (metric.name == kDeviceUtilisation)
      record.device_utilisation = metric.sum / metric.weight;
    else
      record.task_metrics.emplace_back(metric.name, is_count ? metric.sum : metric.sum / metric.weight);
  }
}

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

void StepReports::next_step_begins(double now) {
  if (pending_) pending_->step.record.seconds = now - pending_->step.began;
}

void StepReports::take(TakenStep step, LossScale& scale) {
  collect();
  if (unapplied_) scale.update(*std::exchange(unapplied_, std::nullopt));
  pending_ = Pending{.step = std::move(step)};
}

void StepReports::collect() {
  if (!pending_) return;
  const Pending done = *std::exchange(pending_, std::nullopt);
  StepRecord record = done.step.record;
  const pl_step_report report = ends_.collect(done.step.ticket);
  if (record.seconds == 0) record.seconds = now_seconds() - done.step.began;
  record.loss = observe::without_sign_if_nan(done.step.weight > 0 ? report.loss_sum / done.step.weight : 0);
  record.grad_norm = observe::without_sign_if_nan(report.grad_norm);
  record.skipped = report.finite == 0;
  unapplied_ = !record.skipped;
  ends_.collected(record);
  collected_ = Collected{std::move(record), ends_.read(done.step.late)};
  if (!done.any_late) finish({});
}

void StepReports::collect_all() {
  collect();
  if (collected_) finish(ends_.add_up(collected_->late));
}

void StepReports::finish(const std::vector<MetricSum>& late) {
  if (!collected_) return;
  StepRecord record = std::exchange(collected_, std::nullopt)->record;
  add_means(late, record);
  ends_.complete(record);
}

void StepReports::tell(Boundary& mine) const {
  if (pending_) {
    mine.data_wait = pending_->step.data_wait;
    mine.has_late = !pending_->step.late.empty();
  }
  if (collected_) mine.late_metrics = collected_->late;
}

void StepReports::hear(const Boundary& all) {
  finish(all.late_metrics);
  if (!pending_) return;
  StepRecord& record = pending_->step.record;
  record.data_wait_seconds = all.data_wait;
  add_means(all.metrics, record);
  pending_->any_late = all.has_late;
}

}  // namespace pipeline::train
