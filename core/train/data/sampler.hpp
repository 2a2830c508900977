// Which samples a micro-batch has: a function of the seed and the step.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/hash.hpp"
#include "core/train/data/batch_plan.hpp"

namespace pipeline::train {

class Sampler {
 public:
  // Costs of samples: out[i] for ids[i].
  using CostFunction = std::function<void(std::span<const uint64_t> ids, std::span<double> out)>;

  struct Options {
    uint64_t samples = 0;       // of the training split; > 0
    uint64_t seed = 0;          // run.seed
    bool shuffle = true;        // false: samples in their own order
    CostFunction costs;         // empty: no grouping
    uint64_t window_steps = 0;  // length of a grouping window
  };

  Sampler(const BatchPlan& plan, Options options);

  uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  uint64_t epoch_of(uint64_t step) const { return step / steps_per_epoch_; }

  // The samples of micro-batch m (< plan.micro_batches) of `step`; may be fewer than micro_batch, or none, at
  // an epoch's end. Thread-safe.
  std::vector<uint64_t> micro_batch(uint64_t step, uint64_t m);

  // Samples in all of `step`.
  uint64_t samples_in(uint64_t step) const;

 private:
  struct Window {  // the grouped order of one window
    uint64_t epoch = ~uint64_t{0};
    uint64_t index = 0;
    std::vector<uint64_t> ids;
  };

  uint64_t order_key(uint64_t epoch) const;
  uint64_t group_size() const;
  Window make_window(uint64_t epoch, uint64_t index) const;

  const BatchPlan plan_;
  const Options options_;
  const uint64_t steps_per_epoch_;
  std::mutex mutex_;
  Window windows_[2];  // loaders run ahead, so two windows are in use around a border
};

// A micro-batch of training, and the sum of its samples' costs.
struct CostedMicroBatch {
  uint64_t step, index;
  double cost;
};

// The `count` costliest, the first one first, of those with `indices` in each of the steps begin <= step <
// end: of so many steps as have 65,536 samples. Empty ones are left out.
std::vector<CostedMicroBatch> costliest_micro_batches(Sampler& sampler, const Sampler::CostFunction& costs,
                                                      uint64_t begin, uint64_t end,
                                                      std::span<const uint64_t> indices, size_t count);

}  // namespace pipeline::train
