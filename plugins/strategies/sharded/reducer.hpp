#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include <pipeline/state.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/sharded/exchange.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/peers.hpp"
#include "plugins/strategies/sharded/shard.hpp"
#include "plugins/strategies/sharded/shard_groups.hpp"

namespace pipeline::strategies {

// What a reducer works on; borrowed for its life.
struct ReducerArgs {
  std::shared_ptr<const Layout> layout;
  const Partition& partition;
  const ShardGroups& groups;
  const Peers& peers;  // groups.within()
  Shard& shard;
  bool every_micro_batch;  // sent in each; otherwise added up here and sent in the last
};

// How the gradients of a step's micro-batches, of all ranks, become sums in the ranks' shards.
class Reducer : public GradientSink {
 public:
  // The backward pass is through with a unit. [serialized]
  virtual void end_unit(uint32_t /*unit*/) {}
  // empty: this rank had no micro-batch.
  virtual void end_micro_batch(bool empty) = 0;
  // After the last micro-batch: the sums are in the shard.
  virtual void finish() = 0;
};

// For reproducible mode: sums along the tree over micro-batches, at the end of a micro-batch, when nothing
// can come any more. Holds one micro-batch's gradients whole, and nodes of the tree.
class OrderedReducer : public Reducer {
 public:
  OrderedReducer(const ReducerArgs& args, uint64_t micro_batches);
  void begin(uint64_t micro_batches) override;
  void add(size_t slot, const at::Tensor& gradient, bool owned) override;
  void end_micro_batch(bool empty) override;
  void finish() override;
  void memory(const MemoryVisitor& visit) const override;

 private:
  using Nodes = std::vector<SumTree<at::Tensor>::Entry>;

  uint64_t first_leaf(int64_t rank) const;
  void start_round();
  void reduce_round();
  Nodes nodes_of_groups(size_t bucket, Nodes mine);

  ReducerArgs args_;
  uint64_t total_micro_batches_;
  GradientSum sum_;  // of a round: a block of the tree's leaves on each rank
  Exchange exchange_;
  std::vector<std::vector<at::Tensor>> received_;  // by node of the round, then by rank
  std::vector<SumTree<at::Tensor>> trees_;         // by bucket, of this rank's part
  uint64_t block_ = 1;                             // micro-batches of a round on each rank
  uint64_t round_ = 0;
  uint64_t seen_ = 0;  // micro-batches of the round
};

}  // namespace pipeline::strategies
