#include "plugins/strategies/sharded/values.hpp"

#include <pipeline/error.hpp>

#include <utility>

#include <ATen/core/Tensor.h>

namespace pipeline::strategies {
Values::Values(std::shared_ptr<const Layout> layout, const Partition& partition, const Peers& peers,
               at::ScalarType dtype)
    : layout_(std::move(layout)),
      partition_(partition),
      peers_(peers),
      arena_(layout_, dtype, peers.device()),
      pending_(partition.buckets().size()) {}

void Values::gather(size_t bucket, const Shard& shard) {
  peers_.wait(pending_[bucket]);
  const Range range = partition_.buckets()[bucket];
  const at::Tensor memory = arena_.part(range.begin, range.length());
  shard.place(bucket, memory);
  peers_.all_gather(memory, pending_[bucket], concat("weights ", bucket));
}

void Values::gather_all(const Shard& shard) {
  for (size_t bucket = 0; bucket < pending_.size(); ++bucket) gather(bucket, shard);
}

void Values::wait(int64_t begin, int64_t end) {
  const auto [first, last] = partition_.buckets_of(begin, end);
  for (size_t bucket = first; bucket < last; ++bucket) peers_.wait(pending_[bucket]);
}

}  // namespace pipeline::strategies
