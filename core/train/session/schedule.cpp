#include "core/train/session/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace pipeline::train {

double Schedule::at(uint64_t step) const {
  if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (kind == ScheduleKind::constant) return peak;
  if (kind == ScheduleKind::inverse_sqrt) {
    constexpr uint64_t kWithoutWarmup = 10'000;  // as transformers has it
    const uint64_t scale = warmup_steps > 0 ? warmup_steps : kWithoutWarmup;
    return peak / std::sqrt(static_cast<double>(step - warmup_steps + scale) / static_cast<double>(scale));
  }
  const uint64_t stable =
      kind == ScheduleKind::wsd && total_steps > decay_steps ? total_steps - decay_steps : 0;
  const uint64_t begin = std::max(warmup_steps, stable);
  if (step < begin) return peak;
  const uint64_t length = total_steps > begin ? total_steps - begin : 1;
  const double done = std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(length));
  return peak * (final_ratio + (1 - final_ratio) * left(done));
}

double Schedule::left(double done) const {
  const Fall how = kind == ScheduleKind::wsd      ? fall
                   : kind == ScheduleKind::linear ? Fall::linear
                                                  : Fall::cosine;
  if (how == Fall::cosine) return 0.5 * (1 + std::cos(std::numbers::pi * done));
  return how == Fall::linear ? 1 - done : 1 - std::sqrt(done);
}

double scale_learning_rate(double rate, LrScaling scaling, uint64_t effective_batch, uint64_t base_batch) {
  const double ratio = static_cast<double>(effective_batch) / static_cast<double>(base_batch);
  if (scaling == LrScaling::linear) return rate * ratio;
  if (scaling == LrScaling::sqrt) return rate * std::sqrt(ratio);
  return rate;
}

namespace {

LrScaling scaling_of(const config::ScheduleOptions& options) {
  const std::string& name = options.lr_scaling;
  return name == "linear" ? LrScaling::linear : name == "sqrt" ? LrScaling::sqrt : LrScaling::none;
}

ScheduleKind kind_of(const config::ScheduleOptions& options) {
  const std::string& name = options.kind;
  return name == "linear"         ? ScheduleKind::linear
         : name == "constant"     ? ScheduleKind::constant
         : name == "wsd"          ? ScheduleKind::wsd
         : name == "inverse_sqrt" ? ScheduleKind::inverse_sqrt
                                  : ScheduleKind::cosine;
}

Fall fall_of(const config::ScheduleOptions& options) {
  const std::string& name = options.decay;
  return name == "linear" ? Fall::linear : name == "cosine" ? Fall::cosine : Fall::one_minus_sqrt;
}

}  // namespace

void check_schedule(const config::Config& config) {
  const config::TrainOptions& train = config.options().train;
  const config::ScheduleOptions& schedule = config.options().schedule;
  // With its default, which a run's own configuration spells out, the other one is meant.
  const double norm = train.clip_grad_norm;
  if (train.clip_grad_value > 0 && config.is_set("train.clip_grad_norm") && norm > 0 && norm != 1)
    throw config.error("train.clip_grad_value", "train.clip_grad_norm is set, too: leave one of the two out");
  const bool has_steps = train.max_steps || train.max_epochs;
  if (!has_steps && !train.max_seconds)
    throw config.error(
        "train.max_steps",
        "nothing says when training ends: give train.max_steps, train.max_epochs or train.max_seconds");
  const ScheduleKind kind = kind_of(schedule);
  if (!has_steps && kind != ScheduleKind::constant && kind != ScheduleKind::inverse_sqrt)
    throw config.error("schedule.kind",
                       "needs to know the last step: give train.max_steps or train.max_epochs beside "
                       "train.max_seconds, or use \"constant\" or \"inverse_sqrt\"");
  if (scaling_of(schedule) != LrScaling::none && !schedule.base_batch)
    throw config.error("schedule.lr_scaling",
                       "needs schedule.base_batch, the effective batch that optimizer.lr is right for");
}

Schedule make_schedule(const config::Config& config, uint64_t global_batch, uint64_t total_steps) {
  const config::ScheduleOptions& options = config.options().schedule;
  const LrScaling scaling = scaling_of(options);
  const uint64_t base_batch = scaling == LrScaling::none ? global_batch : options.base_batch.value();
  return {.peak = scale_learning_rate(config.options().optimizer.lr, scaling, global_batch, base_batch),
          .kind = kind_of(options),
          .warmup_steps = options.warmup_steps,
          .total_steps = total_steps,
          .final_ratio = options.min_lr_ratio,
          .decay_steps = options.decay_steps.value_or(std::max<uint64_t>(1, total_steps / 10)),
          .fall = fall_of(options)};
}

}  // namespace pipeline::train
