#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>
#include <pipeline/options.hpp>

namespace pipeline::strategies {

// The ranks of the run, with tensors in place of buffers. One rank alone has no communicator: then nothing is
// sent and nothing waited for. Calls are [collective].
class RankGroup {
 public:
  // A collective under way, or nothing to wait for. Its tensors must live until it is waited for or dropped,
  // which waits as well.
  using Pending = std::optional<Communicator::Work>;

  // `communicator`: NULL for one rank.
  RankGroup(const Context& context, const Communicator* communicator, at::Device device)
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

  const RankGroup& all() const { return all_; }
  const RankGroup& within() const { return within_; }    // the S ranks of this one's group
  const RankGroup& between() const { return between_; }  // the R ranks that have the same shard; by group

  int64_t groups() const { return between_.size(); }
  // The rank in the run of rank `member` of group `group`.
  int64_t rank_of(int64_t group, int64_t member) const { return group * within_.size() + member; }

 private:
  std::optional<Communicator> open(const Context& context, const char* name, int64_t first, int64_t count,
                                   int64_t step) const;

  const Communicator* communicator_;
  int64_t size_;  // S
  std::optional<Communicator> group_of_within_, group_of_between_;
  RankGroup all_, within_, between_;
};

}  // namespace pipeline::strategies
