// What a strategy says of itself in a world of processes that are not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/plugins/registry.hpp"
#include "core/train/data/batch_plan.hpp"
#include "core/train/session/session.hpp"
#include "core/train/telemetry/costs.hpp"

namespace pipeline::train {

struct PlannedStrategy {
  StrategyMemory memory;          // of rank 0
  uint64_t checkpoint_bytes = 0;  // that rank 0 writes
  uint32_t reduction_bits = 32;   // of an element of a gradient that is sent
  uint64_t shard_group = 0;       // processes that hold one copy in shards; 0: all
};

struct StrategyQuestion {
  std::string plugin;                 // "sharded"
  std::optional<int64_t> zero_stage;  // strategy.zero_stage
  BatchPlan batch;                    // and in it the number of processes
  pl_dtype dtype{};                   // of parameters and products
};

// Creates the strategy for the parameters of the session's task, with the session's [strategy] options where
// it is the session's own, and asks it. It allocates what it would in a run, for as long as it is asked.
// Throws Error where it cannot do what is planned.
PlannedStrategy ask_strategy(Session& session, plugins::Registry& registry, const StrategyQuestion& question);

// Bytes that each process sends in a step with `micro_batches` of its own, by plugins/strategies/README.md;
// nullopt for a strategy that it does not know.
std::optional<double> bytes_sent(const StrategyQuestion& question, const PlannedStrategy& strategy,
                                 uint64_t trainable_parameters);

}  // namespace pipeline::train
