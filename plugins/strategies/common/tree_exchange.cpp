#include "plugins/strategies/common/tree_exchange.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {
namespace {

using Nodes = SumTree<at::Tensor>;

// The nodes that rank `rank` has after its block, without their contents: all ranks know all of them.
std::vector<SumTree<char>::Entry> nodes_of(int32_t rank, uint64_t micro_batches) {
  SumTree<char> tree([](char&, char&&) {}, static_cast<uint64_t>(rank) * micro_batches);
  for (uint64_t i = 0; i < micro_batches; ++i) tree.push(0);
  return tree.take_nodes();
}

// Elements [begin, begin + out.numel()) of the arena.
void pack(const Layout& layout, const GradientSum::Gradients& gradients, int64_t begin,
          const at::Tensor& out) {
  out.fill_(-0.0);
  const int64_t end = begin + out.numel();
  const auto& slots = layout.slots();
  auto slot = std::partition_point(slots.begin(), slots.end(),
                                   [&](const Slot& s) { return s.offset + s.padded <= begin; });
  for (; slot != slots.end() && slot->offset < end; ++slot) {
    const auto index = static_cast<size_t>(slot - slots.begin());
    if (index >= gradients.size() || !gradients[index].defined()) continue;
    const int64_t first = std::max(begin, slot->offset), last = std::min(end, slot->offset + slot->padded);
    if (first < last) {
      out.narrow(0, first - begin, last - first)
          .copy_(gradients[index].narrow(0, first - slot->offset, last - first));
    }
  }
}

}  // namespace

std::vector<int64_t> even_cuts(int64_t begin, int64_t end, int32_t ranks) {
  const int64_t chunks = (end - begin) / kChunk;
  std::vector<int64_t> cuts;
  for (int64_t r = 0; r <= ranks; ++r) cuts.push_back(begin + chunks * r / ranks * kChunk);
  return cuts;
}

TreeExchange::TreeExchange(const Communicator& group, const Layout& layout,
                           const std::vector<GradientSum::Node>& nodes, uint64_t micro_batches,
                           at::Device device)
    : group_(group),
      layout_(layout),
      nodes_(nodes),
      micro_batches_(micro_batches),
      options_(at::TensorOptions().dtype(at::kFloat).device(device)) {}

TreeExchange::Flight TreeExchange::start(const std::vector<int64_t>& cuts) const {
  const auto mine = static_cast<size_t>(group_.rank());
  const int64_t count = cuts[mine + 1] - cuts[mine], own_nodes = static_cast<int64_t>(nodes_.size());
  std::vector<uint64_t> send, receive;
  uint64_t received = 0;
  at::Tensor sent = at::empty({own_nodes * (cuts.back() - cuts.front())}, options_);
  int64_t at = 0;
  for (int32_t r = 0; r < group_.world_size(); ++r) {
    const int64_t begin = cuts[static_cast<size_t>(r)], length = cuts[static_cast<size_t>(r) + 1] - begin;
    for (const GradientSum::Node& node : nodes_) {
      pack(layout_, node.node, begin, sent.narrow(0, std::exchange(at, at + length), length));
    }
    send.push_back(static_cast<uint64_t>(own_nodes * length));
    receive.push_back(nodes_of(r, micro_batches_).size() * static_cast<uint64_t>(count));
    received += receive.back();
  }
  at::Tensor into = at::empty({static_cast<int64_t>(received)}, options_);
  Communicator::Work work =
      group_.all_to_all(to_buffer(sent, "gradients"), to_buffer(into), send.data(), receive.data());
  return {std::move(sent), std::move(into), count, std::move(work)};
}

at::Tensor TreeExchange::sum(Flight flight) const {
  flight.work.wait();
  Nodes tree([](at::Tensor& into, at::Tensor&& right) { into.add_(right); });
  int64_t at = 0;
  for (int32_t r = 0; r < group_.world_size(); ++r) {
    for (const auto& node : nodes_of(r, micro_batches_)) {
      const int64_t begin = std::exchange(at, at + flight.count);
      tree.push_node({node.level, node.index, flight.received.narrow(0, begin, flight.count)});
    }
  }
  return tree.finish();
}

std::vector<uint8_t> TreeExchange::used_slots(const Context& context) const {
  std::vector<uint8_t> used(layout_.trainable_slots());
  for (const GradientSum::Node& node : nodes_) {
    for (size_t slot = 0; slot < used.size(); ++slot) used[slot] |= node.node[slot].defined() ? 1 : 0;
  }
  maximum_over_hosts(context, "used parameters", used);
  return used;
}

at::Tensor sum_losses(const Communicator& group, const std::vector<LossTree::Entry>& nodes,
                      uint64_t micro_batches, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kDouble).device(device);
  const at::Tensor none = at::full({}, -0.0, options);
  std::vector<at::Tensor> mine;
  for (const LossTree::Entry& entry : nodes) mine.push_back(entry.node.defined() ? entry.node : none);
  std::vector<uint64_t> counts;
  uint64_t total = 0;
  for (int32_t r = 0; r < group.world_size(); ++r) {
    counts.push_back(nodes_of(r, micro_batches).size());
    total += counts.back();
  }
  const at::Tensor sent = at::stack(mine), all = at::empty({static_cast<int64_t>(total)}, options);
  group.all_gather(to_buffer(sent, "loss"), to_buffer(all), counts.data()).wait();
  LossTree tree = make_loss_tree();
  int64_t at = 0;
  for (int32_t r = 0; r < group.world_size(); ++r) {
    for (const auto& node : nodes_of(r, micro_batches)) tree.push_node({node.level, node.index, all[at++]});
  }
  return tree.finish();
}

}  // namespace pipeline::strategies
