#include "core/train/session/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace pipeline::train {

double Schedule::at(uint64_t step) const {
  if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (decay == Decay::constant) return peak;
  const uint64_t length = total_steps > warmup_steps ? total_steps - warmup_steps : 1;
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(length));
  const double left = decay == Decay::linear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return peak * (final_ratio + (1 - final_ratio) * left);
}

double scale_learning_rate(double rate, LrScaling scaling, uint64_t effective_batch, uint64_t base_batch) {
  const double ratio = static_cast<double>(effective_batch) / static_cast<double>(base_batch);
  if (scaling == LrScaling::linear) return rate * ratio;
  if (scaling == LrScaling::sqrt) return rate * std::sqrt(ratio);
  return rate;
}

namespace {

LrScaling scaling_of(const config::Config& config) {
  const std::string& name = config.get_string("schedule.lr_scaling");
  return name == "linear" ? LrScaling::linear : name == "sqrt" ? LrScaling::sqrt : LrScaling::none;
}

uint64_t count(const config::Config& config, const char* key) {
  return static_cast<uint64_t>(config.get_int(key));
}

}  // namespace

void check_schedule(const config::Config& config) {
  const bool has_steps = config.find_int("train.max_steps") || config.find_int("train.max_epochs");
  if (!has_steps && !config.find_float("train.max_seconds"))
    throw config.error(
        "train.max_steps",
        "nothing says when training ends: give train.max_steps, train.max_epochs or train.max_seconds");
  if (!has_steps && config.get_string("schedule.kind") != "constant")
    throw config.error("schedule.kind",
                       "needs to know the last step: give train.max_steps or train.max_epochs beside "
                       "train.max_seconds, or use \"constant\"");
  if (scaling_of(config) != LrScaling::none && !config.has_value("schedule.base_batch"))
    throw config.error("schedule.lr_scaling",
                       "needs schedule.base_batch, the effective batch that optimizer.lr is right for");
}

Schedule make_schedule(const config::Config& config, uint64_t global_batch, uint64_t total_steps) {
  const std::string& kind = config.get_string("schedule.kind");
  const LrScaling scaling = scaling_of(config);
  const uint64_t base_batch =
      scaling == LrScaling::none ? global_batch : count(config, "schedule.base_batch");
  return {.peak = scale_learning_rate(config.get_float("optimizer.lr"), scaling, global_batch, base_batch),
          .decay = kind == "linear"     ? Decay::linear
                   : kind == "constant" ? Decay::constant
                                        : Decay::cosine,
          .warmup_steps = count(config, "schedule.warmup_steps"),
          .total_steps = total_steps,
          .final_ratio = config.get_float("schedule.min_lr_ratio")};
}

}  // namespace pipeline::train
