#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Elements of the arena.
struct Range {
  int64_t begin;
  int64_t end;
  int64_t length() const { return end - begin; }
};

// How the arena is dealt to the ranks. It is cut into buckets, what is sent at a time, and each bucket into
// even parts, one a rank: a rank's shard is its parts of all buckets. So every collective is even, all ranks
// are busy with each, and no tensor lies with one rank. Buckets and parts are multiples of kChunk.
class Partition {
 public:
  // bucket_length: elements at most. by_region: no bucket has two regions, so that regions can be gathered
  // one at a time. The layout's alignment must be world_size x kChunk.
  Partition(const Layout& layout, int64_t rank, int64_t world_size, int64_t bucket_length, bool by_region);

  const std::vector<Range>& buckets() const { return buckets_; }   // by offset, without gaps
  size_t trainable_buckets() const { return trainable_buckets_; }  // they come first
  int64_t longest() const { return longest_; }                     // trainable bucket
  Range part(size_t bucket) const { return part(bucket, rank_); }  // this rank's
  Range part(size_t bucket, int64_t rank) const {
    const int64_t length = part_length(bucket);
    return {buckets_[bucket].begin + rank * length, buckets_[bucket].begin + (rank + 1) * length};
  }
  int64_t part_length(size_t bucket) const { return buckets_[bucket].length() / world_size_; }
  // The buckets that have a part of [begin, end): first and one past the last.
  std::pair<size_t, size_t> buckets_of(int64_t begin, int64_t end) const;

  int64_t rank() const { return rank_; }
  int64_t world_size() const { return world_size_; }

 private:
  void cut(int64_t begin, int64_t end, int64_t bucket_length);

  int64_t rank_;
  int64_t world_size_;
  std::vector<Range> buckets_;
  size_t trainable_buckets_ = 0;
  int64_t longest_ = 0;
};

}  // namespace pipeline::strategies
