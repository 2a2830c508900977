#include "plugins/strategies/single/single.hpp"

#include <memory>
#include <utility>

namespace pipeline::strategies {

Single::Single(Setup setup) : Replicated(std::move(setup)) {
  if (const int32_t ranks = run().world_size; ranks > 1) {
    fail_with(PL_ERROR_CONFIG, "works with one process, this run has ", ranks,
              ": use strategy.plugin = \"ddp\" (or \"auto\"), or launch.processes = 1");
  }
  reduction_ = std::make_unique<LocalReduction>(replica_.layout(), replica_.device(),
                                                context().reproducible(), run().micro_batches);
}

}  // namespace pipeline::strategies
