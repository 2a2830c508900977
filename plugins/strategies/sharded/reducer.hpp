#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include <pipeline/state.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/sharded/exchange.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/rank_group.hpp"
#include "plugins/strategies/sharded/shard.hpp"

namespace pipeline::strategies {

// What a reducer works on; borrowed for its life.
struct ReducerArgs {
  std::shared_ptr<const Layout> layout;
  const Partition& partition;
  const ShardGroups& groups;
  const RankGroup& ranks;  // groups.within()
  Shard& shard;
  bool every_micro_batch;  // sent in each; otherwise added up here and sent in the last
};

// How the gradients of a step's micro-batches, of all ranks, become sums in the ranks' shards.
class Reducer : public GradientReceiver {
 public:
  // The backward pass is through with a unit. [serialized]
  virtual void end_unit(uint32_t /*unit*/) {}
  // empty: this rank had no micro-batch.
  virtual void end_micro_batch(bool empty) = 0;
  // After the last micro-batch: the sums are in the shard.
  virtual void finish() = 0;
};

// For reproducible mode: sums along the tree over micro-batches.
std::unique_ptr<Reducer> ordered_reducer(const ReducerArgs& args, uint64_t micro_batches);

// Sends each bucket as soon as it can, while the backward pass goes on, and lets its gradients go.
enum class SendWhen {
  kComplete,      // a bucket goes when its gradients are there and it is next
  kUnitEnd,       // when the backward pass is through with its unit: between gathers, a place that all ranks
                  // know
  kMicroBatchEnd  // no overlap
};
std::unique_ptr<Reducer> eager_reducer(const ReducerArgs& args, const std::vector<Parameter>& parameters,
                                       SendWhen when, at::ScalarType wire);

}  // namespace pipeline::strategies
