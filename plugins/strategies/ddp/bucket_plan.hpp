#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace pipeline::strategies
