#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include <pipeline/strategy.hpp>

#include "plugins/strategies/common/rules/update_rule.hpp"

namespace pipeline::strategies {

// The exponential moving average of weights (EMA): average = decay average + (1 - decay) weights after every
// `every`-th update behind `start`; up to there, and after the first update, it is the weights. As
// torch.optim.swa_utils with get_ema_avg_fn(decay).
class MovingAverage {
 public:
  // Takes what the rule's options say of it out of them; none: there is no average.
  static std::optional<MovingAverage> take(OptimizerRule& rule);

  // What the average moves by after an update, of which `step_count` has that many: a scalar on the device.
  at::Tensor share(const at::Tensor& step_count, const GradientScale& scale) const;

  static constexpr const char* kKind = "ema";

 private:
  double decay_ = 0;
  int64_t every_ = 1, start_ = 0;
};

}  // namespace pipeline::strategies
