#include "core/train/telemetry/reporter.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/observe/format.hpp"
#include "core/train/session/metrics.hpp"

namespace pipeline::train {
namespace {

constexpr size_t kRateSteps = 10;      // rates are means over this many steps
constexpr uint64_t kAdviceFrom = 10;   // steps: the first ones always wait
constexpr uint64_t kAdviceAfter = 20;  // steps
constexpr double kAdviceShare = 0.2;

struct Rates {
  double seconds = 0, data_wait = 0, tokens = 0, samples = 0;
  std::optional<double> flops = 0;  // nullopt: not known of all of them
};

Rates rates_of(const std::deque<StepRecord>& records) {
  Rates total;
  for (const StepRecord& r : records) {
    total.seconds += r.seconds;
    total.data_wait += r.data_wait_seconds;
    total.tokens += static_cast<double>(r.tokens);
    total.samples += static_cast<double>(r.samples);
    total.flops = total.flops && r.flops ? std::optional(*total.flops + *r.flops) : std::nullopt;
  }
  return total;
}

}  // namespace

Reporter::Reporter(observe::Log& log, Records& records, Options options)
    : log_(log), options_(options), records_(records), peak_flops_(options.peak_flops) {}

void Reporter::step(const StepRecord& record, double elapsed_seconds, MemoryUse memory) {
  recent_.push_back(record);
  if (recent_.size() > kRateSteps) recent_.pop_front();
  raise_peak(record);
  write(record, memory);

  observe::Console& console = log_.console();
  const bool due = record.step % options_.every == 0 || record.step == options_.total_steps || seen_ == 0;
  if (console.interactive()) {
    const double done = options_.total_steps > 0
                            ? static_cast<double>(record.step) / static_cast<double>(options_.total_steps)
                            : elapsed_seconds / std::max(options_.max_seconds, 1.0);
    const std::string text = line(record, elapsed_seconds, memory);
    const int columns = std::clamp(console.width() - static_cast<int>(text.size()) - 2, 0, 30);
    console.status(columns >= 5 ? observe::progress_bar(done, columns) + " " + text : text);
    if (due) log_.file_only(text);
  } else if (due) {
    log_.info(line(record, elapsed_seconds, memory));
  }
  ++seen_;
  advise(record);
}

// The peak is measured once, before the first step, and comes out too low where something else was at work
// then. What a step has done can be done.
void Reporter::raise_peak(const StepRecord& record) {
  if (!record.flops || peak_flops_ <= 0 || record.seconds <= 0) return;
  const double done = *record.flops / record.seconds;
  if (done <= peak_flops_) return;
  if (!std::exchange(peak_raised_, true))
    log_.info(fmt::format(
        "step {} did {:.3g} GFLOP/s, more than the peak of {:.3g} that was measured at the start, when "
        "something else must have been running: from here on MFU is against the fastest step",
        record.step, done / 1e9, peak_flops_ / 1e9));
  peak_flops_ = done;
}

void Reporter::write(const StepRecord& record, MemoryUse memory) {
  nlohmann::ordered_json json;
  json["step"] = record.step;
  json["epoch"] = record.epoch;
  json["loss"] = record.loss;
  json["learning_rate"] = record.learning_rate;
  json["grad_norm"] = record.grad_norm;
  json["samples"] = record.samples;
  json["tokens"] = record.tokens;
  if (record.positions > 0)
    json["padding"] = 1 - static_cast<double>(record.tokens) / static_cast<double>(record.positions);
  json["tokens_per_second"] = record.seconds > 0 ? static_cast<double>(record.tokens) / record.seconds : 0;
  const bool has_mfu = record.flops && peak_flops_ > 0 && record.seconds > 0;
  json["mfu"] = has_mfu ? nlohmann::ordered_json(*record.flops / record.seconds / peak_flops_) : nullptr;
  json["seconds"] = record.seconds;
  json["data_wait_seconds"] = record.data_wait_seconds;
  if (memory.device > 0) json["device_memory"] = memory.device;
  if (record.device_utilisation) json[kDeviceUtilisation] = *record.device_utilisation;
  if (options_.dynamic_loss_scale) json["loss_scale"] = record.loss_scale;
  if (record.skipped) json["skipped"] = true;
  for (const auto& [name, value] : record.task_metrics) json[name] = value;
  records_.step(json);
}

std::string Reporter::line(const StepRecord& record, double elapsed_seconds, MemoryUse memory) const {
  const Rates rates = rates_of(recent_);
  const double seconds = std::max(rates.seconds, 1e-9);
  std::string text = options_.total_steps > 0 ? fmt::format("step {}/{}", record.step, options_.total_steps)
                                              : fmt::format("step {}", record.step);
  text += fmt::format("  loss {:.4f}  lr {:.2e}  norm {:.2f}", record.loss, record.learning_rate,
                      record.grad_norm);
  if (record.skipped) text += " (skipped)";
  text += rates.tokens > 0 ? fmt::format("  {} tokens/s", observe::human_count(rates.tokens / seconds))
                           : fmt::format("  {} samples/s", observe::human_count(rates.samples / seconds));
  if (rates.flops && peak_flops_ > 0)
    text += fmt::format("  mfu {:.0f}%", 100 * *rates.flops / seconds / peak_flops_);
  text +=
      fmt::format("  data {:.0f}%  {}", 100 * rates.data_wait / seconds, observe::human_bytes(memory.host));
  if (memory.device > 0) text += fmt::format("  device {}", observe::human_bytes(memory.device));
  if (record.device_utilisation) text += fmt::format("  busy {:.0f}%", 100 * *record.device_utilisation);

  double left = INFINITY;
  if (options_.total_steps > 0)
    left = static_cast<double>(options_.total_steps - record.step) * seconds /
           static_cast<double>(recent_.size());
  if (options_.max_seconds > 0) left = std::min(left, options_.max_seconds - elapsed_seconds);
  return text + "  eta " + observe::human_duration(left);
}

void Reporter::advise(const StepRecord& record) {
  if (seen_ <= kAdviceFrom) return;
  waited_ += record.data_wait_seconds;
  worked_ += record.seconds;
  if (advised_ || seen_ < kAdviceAfter || waited_ <= kAdviceShare * worked_) return;
  advised_ = true;
  log_.warning(fmt::format(
      "{:.0f}% of the time goes into waiting for data: raise loader.workers or loader.prefetch (of a task "
      "in Python, loader.processes), put the data on a faster disk, or let the task prepare more of it in "
      "advance",
      100 * waited_ / worked_));
}

}  // namespace pipeline::train
