#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/ddp/bucket_plan.hpp"

namespace pipeline::strategies {

// Sums the gradients of all ranks, bucket by bucket. A bucket's all-reduce starts as soon as all of its
// gradients are there and those of all earlier buckets have started: in the same order on every rank, in
// whatever order gradients become ready.
class Buckets {
 public:
  // `wire`: dtype that travels.
  Buckets(const Communicator& group, std::shared_ptr<const Layout> layout, std::vector<Bucket> plan,
          at::Device device, at::ScalarType wire);

  // Between steps.
  void replan(std::vector<Bucket> plan);

  bool has(size_t slot) const { return ready_[slot]; }
  // This rank's whole sum, padded, which is written to from now on; undefined: zero. Once a slot and step.
  void put(size_t slot, at::Tensor gradient);
  // Waits; every slot must have been put. Sums by slot, undefined for those without elements. Empties this
  // object.
  std::vector<at::Tensor> finish();
  // Of flat buckets, and of what is converted on its way.
  uint64_t copied_bytes() const;

 private:
  // In the order of destruction: what is under way is waited for before its memory goes.
  struct Flight {
    at::Tensor sum;   // float32, flat or a view of the slot's own
    at::Tensor sent;  // the same, or in the dtype that travels
    std::optional<Communicator::Work> work;
  };

  void start(const Bucket& bucket);
  at::Tensor gather(const Bucket& bucket);
  void reset();

  const Communicator& group_;
  std::shared_ptr<const Layout> layout_;
  std::vector<Bucket> plan_;
  at::TensorOptions options_;
  at::ScalarType wire_;
  std::vector<std::vector<size_t>> buckets_of_;  // by slot
  std::vector<bool> ready_;                      // by slot
  std::vector<at::Tensor> gradients_;            // by slot; those in flat buckets go when these start
  std::vector<size_t> missing_;                  // by bucket: slots that are not ready
  std::vector<Flight> flights_;                  // by bucket, as far as they have started
};

}  // namespace pipeline::strategies
