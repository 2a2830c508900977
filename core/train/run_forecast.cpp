#include "core/train/run_forecast.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/launch/devices.hpp"
#include "core/observe/format.hpp"
#include "core/train/session/sampling.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kSteps = 10;  // by then an allocator has what it needs for steps of many sizes

}  // namespace

RunForecast::RunForecast(Session& session, const std::vector<std::optional<uint64_t>>& micro_batches,
                         uint64_t total_steps)
    : session_(session), total_steps_(total_steps) {
  for (const auto& m : micro_batches)
    if (m) micro_batches_.push_back(*m);
}

void RunForecast::before_step(uint64_t step) {
  if (!memory_)
    memory_.emplace(session_, copies_checkpoints(session_.config(), total_steps_), largest_to_come(step));
}

void RunForecast::after_micro_batch() {
  if (!is_made_) memory_->micro_batch();
}

void RunForecast::after_step() {
  if (!is_made_) is_made_ = ++steps_ == kSteps;
}

std::optional<uint64_t> RunForecast::peak() const {
  return memory_ ? std::optional(memory_->peak()) : std::nullopt;
}

// The cost of this rank's largest micro-batch to come, as far as it is looked for, in terms of the largest
// one of the steps that are measured.
double RunForecast::largest_to_come(uint64_t step) const {
  if (!session_.task().has_sample_costs()) return 1;
  Sampler sampler(session_.plan(), sampler_options(session_));  // its own: it runs far ahead of the loader's
  const auto costs = sample_costs(session_.task());
  const auto largest_until = [&](uint64_t end) {
    const auto costliest = costliest_micro_batches(sampler, costs, step, end, micro_batches_, 1);
    return costliest.empty() ? 0.0 : costliest[0].cost;
  };
  const uint64_t end = total_steps_ > 0 ? total_steps_ : step + sampler.steps_per_epoch();
  const double now = largest_until(std::min(end, step + kSteps));
  return now > 0 ? largest_until(end) / now : 1;
}

void RunForecast::compare(uint64_t device_memory) const {
  const bool on_device = session_.run_info().device.type == PL_DEVICE_CUDA;
  const uint64_t measured = on_device ? device_memory : launch::peak_host_memory();
  if (measured == 0 || !memory_) return;
  const uint64_t predicted = memory_->peak();
  session_.log().info(
      fmt::format("memory     {} at most{}; predicted in the first {} step{}: {} ({:+.1f}%)",
                  observe::human_bytes(measured), on_device ? " on the device" : "", steps_,
                  steps_ == 1 ? "" : "s", observe::human_bytes(predicted),
                  100 * (static_cast<double>(predicted) / static_cast<double>(measured) - 1)));
}

}  // namespace pipeline::train
