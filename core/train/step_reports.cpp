#include "core/train/step_reports.hpp"

#include <utility>

#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"

namespace pipeline::train {
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

}  // namespace

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
