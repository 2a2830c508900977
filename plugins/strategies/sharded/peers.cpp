#include "plugins/strategies/sharded/peers.hpp"

#include <pipeline/torch/runtime.hpp>

#include <ATen/ops/empty.h>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {

void Peers::all_gather(const at::Tensor& full, Pending& pending, std::string_view label) const {
  if (size() == 1) return;
  const int64_t length = full.numel() / size();
  pending.emplace(
      communicator_->all_gather(to_buffer(full.narrow(0, rank() * length, length), label), to_buffer(full)));
}

void Peers::all_reduce(const at::Tensor& values, Pending& pending, std::string_view label) const {
  if (size() > 1) pending.emplace(communicator_->all_reduce(to_buffer(values, label)));
}

void Peers::exchange(const at::Tensor& send, const at::Tensor& receive, Pending& pending,
                     std::string_view label) const {
  if (size() == 1) return;
  std::vector<uint64_t> counts(static_cast<size_t>(size()),
                               static_cast<uint64_t>(send.numel() / (size() - 1)));
  counts[static_cast<size_t>(rank())] = 0;
  pending.emplace(
      communicator_->all_to_all(to_buffer(send, label), to_buffer(receive), counts.data(), counts.data()));
}

void Peers::exchange(const at::Tensor& send, const at::Tensor& receive,
                     const std::vector<uint64_t>& send_counts, const std::vector<uint64_t>& receive_counts,
                     std::string_view label) const {
  if (size() == 1) return;
  communicator_
      ->all_to_all(to_buffer(send, label), to_buffer(receive), send_counts.data(), receive_counts.data())
      .wait();
}

void Peers::wait(Pending& pending) const {
  if (!pending) return;
  pending->wait();
  pending.reset();
}

at::Tensor Peers::gather_rows(const at::Tensor& row) const {
  at::Tensor rows = at::empty({size(), row.numel()}, row.options());
  rows[rank()].copy_(row);
  Pending pending;
  all_gather(rows.view({-1}).view(at::kLong), pending,
             "figures");  // moved only: as a dtype that every backend has
  wait(pending);
  return rows;
}

void Peers::maximum(std::vector<int32_t>& values) const {
  if (size() > 1) maximum_over_hosts(context_, "agreements", values);
}

}  // namespace pipeline::strategies
