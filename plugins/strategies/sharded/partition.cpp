#include "plugins/strategies/sharded/partition.hpp"

#include <algorithm>

namespace pipeline::strategies {

Partition::Partition(const Layout& layout, int64_t rank, int64_t world_size, int64_t bucket_length,
                     bool by_region)
    : rank_(rank), world_size_(world_size) {
  const int64_t step = world_size * kChunk;
  bucket_length = std::max(bucket_length / step * step, step);
  const int64_t trainable = layout.trainable_length();
  if (by_region) {
    for (const Region& region : layout.regions()) cut(region.begin, region.end, bucket_length);
  } else {
    cut(0, trainable, bucket_length);
    for (const Stored how : kStoredWays)
      cut(std::max(trainable, layout.begin(how)), layout.end(how), bucket_length);
  }
  for (const Range& bucket : buckets_) {
    if (bucket.begin >= trainable) break;
    ++trainable_buckets_;
    longest_ = std::max(longest_, bucket.length());
  }
}

void Partition::cut(int64_t begin, int64_t end, int64_t bucket_length) {
  for (; begin < end; begin += bucket_length)
    buckets_.push_back({begin, std::min(begin + bucket_length, end)});
}

std::pair<size_t, size_t> Partition::buckets_of(int64_t begin, int64_t end) const {
  const auto first = std::ranges::partition_point(buckets_, [&](const Range& b) { return b.end <= begin; });
  const auto last = std::ranges::partition_point(buckets_, [&](const Range& b) { return b.begin < end; });
  return {static_cast<size_t>(first - buckets_.begin()), static_cast<size_t>(last - buckets_.begin())};
}

}  // namespace pipeline::strategies
