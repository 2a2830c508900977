#include "core/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

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

}  // namespace pipeline::train
