#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>
#include <pipeline/options.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// The ranks of the run, with tensors in place of buffers. One rank alone has no communicator: then nothing is
// sent and nothing waited for. Calls are [collective].
class Peers {
 public:
  // A collective under way, or nothing to wait for. Its tensors must live until it is waited for or dropped,
  // which waits as well.
  using Pending = std::optional<Communicator::Work>;

  // `communicator`: NULL for one rank.
  Peers(const Context& context, const Communicator* communicator, at::Device device)
      : context_(context), communicator_(communicator), device_(device) {}

  int64_t rank() const { return communicator_ ? communicator_->rank() : 0; }
  int64_t size() const { return communicator_ ? communicator_->world_size() : 1; }
  at::Device device() const { return device_; }
  const Communicator* communicator() const { return communicator_; }  // null for one rank

  // `full` is as many even parts as there are ranks; this rank's is in its place already. `label`: what it
  // is, for traces.
  void all_gather(const at::Tensor& full, Pending& pending, std::string_view label) const;
  // Sums over the ranks, in place.
  void all_reduce(const at::Tensor& values, Pending& pending, std::string_view label) const;
  // `send` and `receive` are as many even parts as there are other ranks, by rank: part r of `send` goes to
  // rank r, part r of `receive` comes from it.
  void exchange(const at::Tensor& send, const at::Tensor& receive, Pending& pending,
                std::string_view label) const;
  // Exchanges with each rank as many elements as are said, by rank; waits for it.
  void exchange(const at::Tensor& send, const at::Tensor& receive, const std::vector<uint64_t>& send_counts,
                const std::vector<uint64_t>& receive_counts, std::string_view label) const;
  // Makes the current stream wait; on the CPU this thread.
  void wait(Pending& pending) const;
  // Whether wait() keeps this thread: never on a device, nor where the backend cannot tell.
  static bool would_block(const Pending& pending) { return pending && !pending->is_done(); }

  // The rows of all ranks, by rank, of equal length and in double.
  at::Tensor gather_rows(const at::Tensor& row) const;
  // The greatest of each value over all ranks, told from host to host.
  void maximum(std::vector<int32_t>& values) const;

 private:
  Context context_;
  const Communicator* communicator_;
  at::Device device_;
};

// How W ranks share one model: in R groups of S neighbours, each of which has a copy in S shards. With S = W
// there is one copy (ZeRO), with S < W copies whose shards are summed between groups (hybrid sharding, as in
// Zhao et al., "PyTorch FSDP", arXiv 2304.11277, section 3.2.2).
class ShardGroups {
 public:
  // `all`: NULL for one rank. `size`: strategy.shard_group, which `errors` is about. [collective]
  ShardGroups(const Context& context, const Communicator* all, const std::string& size,
              const ConfigErrors& errors, at::Device device);

  const Peers& all() const { return all_; }
  const Peers& within() const { return within_; }    // the S ranks of this one's group
  const Peers& between() const { return between_; }  // the R ranks that have the same shard; by group

  int64_t groups() const { return between_.size(); }
  // The rank in the run of rank `member` of group `group`.
  int64_t rank_of(int64_t group, int64_t member) const { return group * within_.size() + member; }

 private:
  std::optional<Communicator> open(const Context& context, const char* name, int64_t first, int64_t count,
                                   int64_t step) const;

  const Communicator* communicator_;
  int64_t size_;  // S
  std::optional<Communicator> group_of_within_, group_of_between_;
  Peers all_, within_, between_;
};

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
