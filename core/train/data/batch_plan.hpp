// How one optimizer step is cut into micro-batches. What is given, and the defaults where they fit, is the
// same plan for every world size: only who runs which micro-batch changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/config/config.hpp"

namespace pipeline::train {

struct BatchPlan {
  uint64_t global_batch = 0;   // samples per optimizer step, all ranks together
  uint64_t micro_batch = 0;    // samples per forward pass
  uint64_t micro_batches = 0;  // per optimizer step, all ranks together
  uint64_t world_size = 1;
  std::string gave_way;  // for people: a default that is another one on so many devices; empty: none is

  // What the user asked for; what is not given is derived. Defaults that are too small for the devices, or
  // too large, give way to their number, but not under run.reproducible. Throws ConfigError with the key to
  // blame and what would work. For train.micro_batch = "auto" it takes a small one until one is found.
  static BatchPlan make(const config::Config& config, uint64_t world_size);

  // Takes another one of micro_batch_choices().
  void set_micro_batch(uint64_t size) {
    micro_batch = size;
    micro_batches = global_batch / size;
  }

  // Micro-batches per rank; where the world size does not divide them, the last ones of some ranks are empty.
  uint64_t accumulation_steps() const { return (micro_batches + world_size - 1) / world_size; }

  // The micro-batches that the same global batch can be cut into, the smallest first: those that give each
  // device as many samples, where that is possible.
  std::vector<uint64_t> micro_batch_choices() const;

  // The largest of micro_batch_choices() up to `most`.
  uint64_t largest_choice(uint64_t most) const;

  // For people: how one step comes about.
  std::string describe() const;

  // The global indices of the micro-batches that `rank` runs, in order; nullopt is an empty one. All ranks
  // get equally many. `order` is PL_ORDER_BLOCK or PL_ORDER_INTERLEAVED.
  std::vector<std::optional<uint64_t>> micro_batches_of(uint64_t rank, uint32_t order) const;
};

}  // namespace pipeline::train
