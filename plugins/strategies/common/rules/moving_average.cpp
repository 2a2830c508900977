#include "plugins/strategies/common/rules/moving_average.hpp"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/where.h>

#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {

std::optional<MovingAverage> MovingAverage::take(OptimizerRule& rule) {
  const auto take = [&](const char* name) {
    const auto found = rule.options.find(name);
    if (found == rule.options.end()) fail("optimizer ", rule.name, ": option ", name, " is missing");
    const double value = found->second;
    rule.options.erase(found);
    return value;
  };
  if (!rule.options.contains("ema_decay")) return std::nullopt;
  MovingAverage average;
  average.decay_ = take("ema_decay");
  average.every_ = static_cast<int64_t>(take("ema_every"));
  average.start_ = static_cast<int64_t>(take("ema_start"));
  require_option(average.decay_ > 0 && average.decay_ < 1, "ema_decay", average.decay_,
                 "above 0 and below 1");
  require_option(average.every_ >= 1, "ema_every", static_cast<double>(average.every_), "1 or more");
  require_option(average.start_ >= 0, "ema_start", static_cast<double>(average.start_), "0 or more");
  return average;
}

// Computes the share without a look at the step count, for which the host would wait.
at::Tensor MovingAverage::share(const at::Tensor& step_count, const GradientScale& scale) const {
  const at::Tensor behind = step_count - static_cast<double>(std::max<int64_t>(start_, 1));
  const at::Tensor is_due = at::remainder(step_count - static_cast<double>(start_), every_).eq(0);
  at::Tensor share = at::where(behind.le(0), at::ones_like(step_count), is_due * (1 - decay_));
  if (scale.found_inf) share = share * (1 - *scale.found_inf);
  return share;
}

}  // namespace pipeline::strategies
