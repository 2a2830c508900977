#include <memory>
#include <utility>

#include "plugins/strategies/common/replica.hpp"

namespace pipeline::strategies {

// One process, one device. Where a step has one micro-batch, its gradients are handed over by the task and
// live from the backward pass to the update only; where it has several, the task adds them up in memory that
// it is bound to; in reproducible mode they are handed over in either case. Holds weights, gradients and the
// optimizer's state; where the task computes in a narrower dtype than float32, master weights besides; in
// reproducible mode up to log2(micro-batches) more copies of the gradients, for the fixed tree of sums.
//
// A parameter that gets no gradient in a step is updated with a gradient of zero.
class Single : public Replicated<NoConfig> {
 public:
  explicit Single(Setup setup) : Replicated(std::move(setup)) {
    if (const int32_t ranks = run().world_size; ranks > 1) {
      fail_with(PL_ERROR_CONFIG, "works with one process, this run has ", ranks,
                ": use strategy.plugin = \"ddp\" (or \"auto\"), or launch.processes = 1");
    }
    reduction_ = std::make_unique<LocalReduction>(replica_.layout(), replica_.device(),
                                                  context().reproducible(), run().micro_batches);
  }
};

}  // namespace pipeline::strategies

PIPELINE_STRATEGY(pipeline::strategies::Single, "single", "1.0.0", "One process, one device")
