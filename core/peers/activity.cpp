#include "core/peers/activity.hpp"

namespace pipeline::peers {

void Activity::at(std::string_view phase, uint64_t step) {
  moved();
  std::lock_guard lock(mutex_);
  phase_ = phase;
  step_ = step;
  since_ = std::chrono::steady_clock::now();
}

State Activity::now() const {
  std::lock_guard lock(mutex_);
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - since_;
  return {phase_, step_, since.count(), moves_.load(std::memory_order_relaxed), {}};
}

}  // namespace pipeline::peers
