#pragma once

#include <string>
#include <vector>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/config/config.hpp"
#include "core/plugins/backend.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::plugins {

// The smallest training loop over the wrappers: what one rank does, without the core's own loop. Sampler:
// sample k of a step is (step * micro_batches + micro_batch) * size + k, modulo the number of samples.
struct TrainingArgs {
  std::filesystem::path task, strategy, backend;  // files; no backend: one process
  std::vector<std::string> sets;
  std::uint64_t steps = 5, micro_batches = 4, micro_batch = 8;  // micro_batches: of all ranks together
  int rank = 0, ranks = 1;
  peers::Peers* peers = nullptr;  // with several ranks
};

struct TrainingResult {
  std::vector<double> losses;  // mean over the global batch, a step each
  std::vector<float> values;   // all parameters at the end
};

TrainingResult train(const TrainingArgs& args);

// One thread a rank; the result of rank 0, after checking that all ranks got the same.
TrainingResult train_with_threads(TrainingArgs args, int ranks);

}  // namespace pipeline::plugins
