#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Elements [begin, begin + count) of a slot.
struct BucketPart {
  size_t slot;
  int64_t begin;
  int64_t count;
};

// What travels in one all-reduce.
struct Bucket {
  std::vector<BucketPart> parts;
  int64_t count = 0;
  bool in_place = false;  // a single part, reduced in the gradient's own memory
};

// Sizes in elements.
struct BucketSizes {
  int64_t first;     // of the first bucket, at most
  int64_t most;      // of any bucket, at most
  int64_t in_place;  // a gradient of as many is not copied into a flat bucket
};

// The trainable slots with elements in the order in which the backward pass is expected to complete them:
// that of the parameters, reversed.
std::vector<size_t> expected_order(const Layout& layout);

// The slots of `order` in buckets, in that order. A gradient that is too large for one bucket is cut. A pure
// function of its arguments, hence the same on every rank.
std::vector<Bucket> make_buckets(const Layout& layout, const BucketSizes& sizes,
                                 const std::vector<size_t>& order);

// Guesses when a parameter's gradient is complete: nobody says how many contributions will come, so it is
// expected to get as many as in the micro-batch before, or none. A guess changes when a gradient travels,
// never its sum: what comes later travels separately.
class Arrivals {
 public:
  explicit Arrivals(size_t slots) : seen_(slots), expected_(slots, kUnknown) {}

  // One more contribution. True: it is expected to be the last.
  bool arrived(size_t slot) { return ++seen_[slot] == expected_[slot]; }
  bool none_expected(size_t slot) const { return expected_[slot] == 0; }

  void end_micro_batch() { expected_ = std::exchange(seen_, std::vector<int32_t>(seen_.size())); }
  // A micro-batch that never was tells nothing.
  void forget_micro_batch() { seen_.assign(seen_.size(), 0); }

 private:
  static constexpr int32_t kUnknown = -1;

  std::vector<int32_t> seen_;      // in this micro-batch
  std::vector<int32_t> expected_;  // in any
};

// Sums the gradients of all ranks, bucket by bucket. A bucket's all-reduce starts as soon as all of its
// gradients are there and those of all earlier buckets have started: in the same order on every rank, in
// whatever order gradients become ready.
class Buckets {
 public:
  // `wire`: dtype that travels.
  Buckets(const Communicator& group, std::shared_ptr<const Layout> layout, std::vector<Bucket> plan,
          at::Device device, at::ScalarType wire);

  // To be called between steps.
  void replan(std::vector<Bucket> plan);

  bool has(size_t slot) const { return ready_[slot]; }
  // This rank's whole sum, padded, which is written to from now on; undefined: zero. Once a slot and step.
  void put(size_t slot, at::Tensor gradient);
  // Waits; every slot must have been put. Sums by slot, undefined for those without elements. Empties this
  // object.
  std::vector<at::Tensor> finish();
  // The bytes of flat buckets, and of what is converted on its way.
  uint64_t copied_bytes() const;

 private:
  // In the order of destruction: what is under way is waited for before its memory goes.
  struct Flight {
    at::Tensor sum;   // float32, flat or a view of the slot's own
    at::Tensor sent;  // `sum`, or a copy in the dtype that travels
    std::optional<Communicator::Work> work;
  };

  void start(size_t index);
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
