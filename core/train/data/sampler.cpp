#include "core/train/data/sampler.hpp"

#include <algorithm>
#include <numeric>

namespace pipeline::train {
Sampler::Sampler(const BatchPlan& plan, Options options)
    : plan_(plan),
      options_(std::move(options)),
      steps_per_epoch_((options_.samples + plan.global_batch - 1) / plan.global_batch) {}

uint64_t Sampler::samples_in(uint64_t step) const {
  const uint64_t first = step % steps_per_epoch_ * plan_.global_batch;
  return std::min(plan_.global_batch, options_.samples - first);
}

uint64_t Sampler::order_key(uint64_t epoch) const { return derive_seed(options_.seed, "order", epoch); }

std::vector<uint64_t> Sampler::micro_batch(uint64_t step, uint64_t m) {
  const uint64_t epoch = epoch_of(step), step_in_epoch = step % steps_per_epoch_;
  const uint64_t begin = step_in_epoch * plan_.global_batch + m * plan_.micro_batch;
  const uint64_t end = std::min(begin + plan_.micro_batch, options_.samples);
  if (begin >= end) return {};
  std::vector<uint64_t> ids(end - begin);
  if (!options_.costs) {
    const Permutation order(options_.samples, order_key(epoch));
    for (uint64_t i = 0; i < ids.size(); ++i) ids[i] = options_.shuffle ? order(begin + i) : begin + i;
    return ids;
  }
  const uint64_t index = step_in_epoch / options_.window_steps;
  const uint64_t window_begin = index * options_.window_steps * plan_.global_batch;
  const std::lock_guard lock(mutex_);
  Window& window = windows_[index % 2];
  if (window.epoch != epoch || window.index != index) window = make_window(epoch, index);
  std::copy_n(window.ids.begin() + static_cast<std::ptrdiff_t>(begin - window_begin), ids.size(),
              ids.begin());
  return ids;
}

// The size of a group: small enough that a step mixes lengths, and a divisor of the step.
uint64_t Sampler::group_size() const {
  uint64_t size = std::min<uint64_t>(plan_.global_batch, 8);
  while (plan_.global_batch % size != 0) --size;
  return size;
}

Sampler::Window Sampler::make_window(uint64_t epoch, uint64_t index) const {
  const uint64_t length = options_.window_steps * plan_.global_batch;
  const uint64_t begin = index * length, count = std::min(length, options_.samples - begin);
  const Permutation order(options_.samples, order_key(epoch));
  std::vector<uint64_t> ids(count);
  for (uint64_t i = 0; i < count; ++i) ids[i] = options_.shuffle ? order(begin + i) : begin + i;

  std::vector<double> costs(count);
  options_.costs(ids, costs);
  std::vector<uint64_t> by_cost(count);  // places in ids
  std::iota(by_cost.begin(), by_cost.end(), uint64_t{0});
  const auto cheaper = [&](uint64_t a, uint64_t b) { return costs[a] < costs[b]; };
  std::stable_sort(by_cost.begin(), by_cost.end(), cheaper);

  // Only whole groups are shuffled, so that the short one at the end of an epoch stays the last.
  const uint64_t size = group_size(), whole = count / size;
  const Permutation shuffle(whole, derive_seed(options_.seed, "groups", epoch, index));
  std::vector<uint64_t> places(count);
  for (uint64_t i = 0; i < count; ++i)
    places[i] = by_cost[i / size < whole ? shuffle(i / size) * size + i % size : i];
  for (uint64_t step = 0; step < count; step += plan_.global_batch) {
    const auto first = places.begin() + static_cast<std::ptrdiff_t>(step);
    std::stable_sort(first, first + static_cast<std::ptrdiff_t>(std::min(plan_.global_batch, count - step)),
                     cheaper);
  }
  Window window{epoch, index, std::vector<uint64_t>(count)};
  for (uint64_t i = 0; i < count; ++i) window.ids[i] = ids[places[i]];
  return window;
}

std::vector<CostedMicroBatch> costliest_micro_batches(Sampler& sampler, const Sampler::CostFunction& costs,
                                                      uint64_t begin, uint64_t end,
                                                      std::span<const uint64_t> indices, size_t count) {
  constexpr uint64_t kMostSamples = uint64_t{1} << 16;
  std::vector<CostedMicroBatch> all;
  std::vector<double> of_samples;
  uint64_t samples = 0;
  for (uint64_t step = begin; step < end && samples < kMostSamples; ++step) {
    samples += sampler.samples_in(step);
    for (const uint64_t index : indices) {
      const std::vector<uint64_t> ids = sampler.micro_batch(step, index);
      if (ids.empty()) continue;
      of_samples.resize(ids.size());
      costs(ids, of_samples);
      all.push_back({step, index, std::accumulate(of_samples.begin(), of_samples.end(), 0.0)});
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &CostedMicroBatch::cost);
  all.resize(std::min(count, all.size()));
  return all;
}

}  // namespace pipeline::train
