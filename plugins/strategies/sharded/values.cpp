#include "plugins/strategies/sharded/values.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

namespace pipeline::strategies {
namespace {

// Zeros. In host memory they come from the system and go back there, whatever the allocator keeps of what it
// has handed out.
at::Tensor mapped_zeros(int64_t count, at::ScalarType dtype, at::Device device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  if (!device.is_cpu() || count == 0) return at::zeros({count}, options);
  const size_t bytes = static_cast<size_t>(count) * at::elementSize(dtype);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_with(PL_ERROR_OUT_OF_MEMORY, "the weights: the system gives no ", bytes,
              " bytes: ", std::strerror(errno));
  }
  return at::from_blob(
      memory, {count}, [bytes](void* start) { ::munmap(start, bytes); }, options);
}

}  // namespace

Values::Values(std::shared_ptr<const Layout> layout, const Partition& partition, const Peers& peers,
               at::ScalarType dtype)
    : layout_(std::move(layout)),
      partition_(partition),
      peers_(peers),
      arena_(mapped_zeros(std::max(layout_->length(), kChunk), dtype, peers.device())),
      pending_(partition.buckets().size()) {}

void* Values::address(size_t index) const {
  return static_cast<std::byte*>(arena_.mutable_data_ptr()) +
         static_cast<size_t>(layout_->slot_of(index).offset) * arena_.element_size();
}

void Values::gather(size_t bucket, const Shard& shard) {
  peers_.wait(pending_[bucket]);
  const Range range = partition_.buckets()[bucket];
  const at::Tensor memory = arena_.narrow(0, range.begin, range.length());
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
