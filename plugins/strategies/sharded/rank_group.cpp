#include "plugins/strategies/sharded/rank_group.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include <ATen/ops/empty.h>
#include <pipeline/torch/runtime.hpp>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {
namespace {

// The processes of each host, which must be neighbours and as many everywhere.
int64_t size_of_hosts(const Context& context, const ConfigErrors& errors) {
  const pl_run_info& run = context.run();
  const auto place = [](int64_t local_rank, int64_t size) { return concat(local_rank, " of ", size); };
  const auto all = context.exchange("places on hosts", place(run.local_rank, run.local_world_size));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string expected =
        place(static_cast<int64_t>(rank) % run.local_world_size, run.local_world_size);
    if (all[rank] != expected)
      errors("shard_group",
             concat("rank ", rank, " is process ", all[rank], " of its host, expected ", expected,
                    ": start as many on each host, numbered host by host (srun --distribution=block, mpirun "
                    "--map-by slot), or give a number"));
  }
  return run.local_world_size;
}

int64_t size_of_groups(const Context& context, const std::string& said, const ConfigErrors& errors) {
  const int64_t ranks = context.run().world_size;
  if (said == "all") return ranks;
  if (said == "host") return ranks == 1 ? 1 : size_of_hosts(context, errors);
  int64_t size = 0;
  const auto [end, problem] = std::from_chars(said.data(), said.data() + said.size(), size);
  if (problem != std::errc() || end != said.data() + said.size() || size < 1)
    errors("shard_group", "must be \"all\", \"host\" or a number of processes, as in \"4\"");
  if (ranks % size != 0) errors("shard_group", concat("must divide the number of processes, ", ranks));
  return size;
}

}  // namespace

void RankGroup::all_gather(const at::Tensor& full, Pending& pending, std::string_view label) const {
  if (size() == 1) return;
  const int64_t length = full.numel() / size();
  pending.emplace(
      communicator_->all_gather(to_buffer(full.narrow(0, rank() * length, length), label), to_buffer(full)));
}

void RankGroup::all_reduce(const at::Tensor& values, Pending& pending, std::string_view label) const {
  if (size() > 1) pending.emplace(communicator_->all_reduce(to_buffer(values, label)));
}

void RankGroup::exchange(const at::Tensor& send, const at::Tensor& receive, Pending& pending,
                         std::string_view label) const {
  if (size() == 1) return;
  std::vector<uint64_t> counts(static_cast<size_t>(size()),
                               static_cast<uint64_t>(send.numel() / (size() - 1)));
  counts[static_cast<size_t>(rank())] = 0;
  pending.emplace(
      communicator_->all_to_all(to_buffer(send, label), to_buffer(receive), counts.data(), counts.data()));
}

void RankGroup::exchange(const at::Tensor& send, const at::Tensor& receive,
                         const std::vector<uint64_t>& send_counts,
                         const std::vector<uint64_t>& receive_counts, std::string_view label) const {
  if (size() == 1) return;
  communicator_
      ->all_to_all(to_buffer(send, label), to_buffer(receive), send_counts.data(), receive_counts.data())
      .wait();
}

void RankGroup::wait(Pending& pending) const {
  if (!pending) return;
  pending->wait();
  pending.reset();
}

at::Tensor RankGroup::gather_rows(const at::Tensor& row) const {
  at::Tensor rows = at::empty({size(), row.numel()}, row.options());
  rows[rank()].copy_(row);
  Pending pending;
  all_gather(rows.view({-1}).view(at::kLong), pending,
             "figures");  // moved only: as a dtype that every backend has
  wait(pending);
  return rows;
}

void RankGroup::maximum(std::vector<int32_t>& values) const {
  if (size() > 1) maximum_over_hosts(context_, "agreements", values);
}

ShardGroups::ShardGroups(const Context& context, const Communicator* all, const std::string& size,
                         const ConfigErrors& errors, at::Device device)
    : communicator_(all),
      size_(size_of_groups(context, size, errors)),
      group_of_within_(open(context, "shards", context.run().rank / size_ * size_, size_, 1)),
      group_of_between_(open(context, "copies", context.run().rank % size_,
                             all == nullptr ? 1 : all->world_size() / size_, size_)),
      all_(context, all, device),
      within_(context, group_of_within_ ? &*group_of_within_ : nullptr, device),
      between_(context, group_of_between_ ? &*group_of_between_ : nullptr, device) {}

// Opens a group: none for one rank alone, and the one of all ranks where it is the same.
std::optional<Communicator> ShardGroups::open(const Context& context, const char* name, int64_t first,
                                              int64_t count, int64_t step) const {
  if (count == 1) return std::nullopt;
  if (count == communicator_->world_size()) return *communicator_;
  std::vector<int32_t> members;
  for (int64_t i = 0; i < count; ++i) members.push_back(static_cast<int32_t>(first + i * step));
  const pl_communicator group = context.open_group(name, members);
  return Communicator(&group);
}

}  // namespace pipeline::strategies
