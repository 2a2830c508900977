#pragma once

#include "plugins/strategies/common/replicated.hpp"

namespace pipeline::strategies {

// One process, one device. Gradients are handed over by the task and live from the backward pass to the
// update only. Holds weights, gradients and the optimizer's state; where the task computes in a narrower
// dtype than float32, master weights besides; in reproducible mode up to log2(micro-batches) more copies of
// the gradients, for the fixed tree of sums.
//
// A parameter that gets no gradient in a step is updated with a gradient of zero.
class Single : public Replicated<NoConfig> {
 public:
  explicit Single(Setup setup);
};

}  // namespace pipeline::strategies
