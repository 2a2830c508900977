#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include <pipeline/parameter.hpp>
#include <pipeline/tensor.hpp>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/value_arena.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/peers.hpp"
#include "plugins/strategies/sharded/shard.hpp"

namespace pipeline::strategies {

// All weights, whole, in one arena that the task can be bound to, put together from the ranks' shards.
class Values {
 public:
  Values(std::shared_ptr<const Layout> layout, const Partition& partition, const Peers& peers,
         at::ScalarType dtype);

  const ValueArena& arena() const { return arena_; }
  void* address(size_t index) const { return arena_.address(index); }

  // Starts to put a bucket together. Nobody may read it until it has been waited for.
  void gather(size_t bucket, const Shard& shard);
  void gather_all(const Shard& shard);
  // Waits for the buckets that have a part of [begin, end).
  void wait(int64_t begin, int64_t end);
  void wait_all() { wait(0, layout_->length()); }

 private:
  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  const Peers& peers_;
  ValueArena arena_;
  std::vector<Peers::Pending> pending_;  // by bucket; goes before the arena
};

}  // namespace pipeline::strategies
