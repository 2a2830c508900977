#pragma once

#include <optional>
#include <string>

#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>
#include <pipeline/options.hpp>

#include "plugins/strategies/sharded/peers.hpp"

namespace pipeline::strategies {

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

}  // namespace pipeline::strategies
