#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "plugins/strategies/common/collective.hpp"
#include "plugins/strategies/ddp/reductions.hpp"

namespace pipeline::strategies {
namespace {

// What rank `rank` has after its block: all ranks know all of them.
std::vector<SumTree<char>::Entry> nodes_of_rank(int32_t rank, uint64_t micro_batches) {
  return nodes_of(static_cast<uint64_t>(rank) * micro_batches, micro_batches);
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

// Where [begin, end) of the arena is cut into a part a rank: rank r has [cuts[r], cuts[r + 1]), multiples of
// kChunk and as even as those allow.
std::vector<int64_t> even_cuts(int64_t begin, int64_t end, int32_t ranks) {
  const int64_t chunks = (end - begin) / kChunk;
  std::vector<int64_t> cuts;
  for (int64_t r = 0; r <= ranks; ++r) cuts.push_back(begin + chunks * r / ranks * kChunk);
  return cuts;
}

// Sums along the one tree over the micro-batches of all ranks, where each rank has added up a block of as
// many of them (SumTree::take_nodes). Each rank gets every other's nodes for its own part of the arena and
// adds them there, so no rank holds all of anything, and the bits are those of one rank with all
// micro-batches. What a node lacks travels as -0, which changes no bit of what it is added to.
class TreeExchange {
 public:
  // `micro_batches`: of each rank. `nodes` and what it holds must outlive this object.
  TreeExchange(const Communicator& group, const Layout& layout, const std::vector<GradientSum::Node>& nodes,
               uint64_t micro_batches, at::Device device)
      : group_(group),
        layout_(layout),
        nodes_(nodes),
        micro_batches_(micro_batches),
        options_(at::TensorOptions().dtype(at::kFloat).device(device)) {}

  // The exchange of one range, under way.
  struct Flight {
    at::Tensor sent, received;
    int64_t count;  // elements of this rank's part
    Communicator::Work work;
  };
  Flight start(const std::vector<int64_t>& cuts) const {
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
      receive.push_back(nodes_of_rank(r, micro_batches_).size() * static_cast<uint64_t>(count));
      received += receive.back();
    }
    at::Tensor into = at::empty({static_cast<int64_t>(received)}, options_);
    Communicator::Work work =
        group_.all_to_all(to_buffer(sent, "gradients"), to_buffer(into), send.data(), receive.data());
    return {std::move(sent), std::move(into), count, std::move(work)};
  }

  // Waits. The sum is flat, from cuts[rank] on; between slots and where no rank had a gradient: anything.
  at::Tensor sum(Flight flight) const {
    flight.work.wait();
    SumTree<at::Tensor> tree([](at::Tensor& into, at::Tensor&& right) { into.add_(right); });
    int64_t at = 0;
    for (int32_t r = 0; r < group_.world_size(); ++r) {
      for (const auto& node : nodes_of_rank(r, micro_batches_)) {
        const int64_t begin = std::exchange(at, at + flight.count);
        tree.push_node({node.level, node.index, flight.received.narrow(0, begin, flight.count)});
      }
    }
    return tree.finish();
  }

  // A byte for each slot: 1 where any rank had a gradient.
  std::vector<uint8_t> used_slots(const Context& context) const {
    std::vector<uint8_t> used(layout_.trainable_slots());
    for (const GradientSum::Node& node : nodes_) {
      for (size_t slot = 0; slot < used.size(); ++slot) used[slot] |= node.node[slot].defined() ? 1 : 0;
    }
    maximum_over_hosts(context, "used parameters", used);
    return used;
  }

 private:
  const Communicator& group_;
  const Layout& layout_;
  const std::vector<GradientSum::Node>& nodes_;
  uint64_t micro_batches_;
  at::TensorOptions options_;
};

// Sums the losses over all ranks along the tree, on every rank.
at::Tensor sum_losses(const Communicator& group, const std::vector<LossTree::Entry>& nodes,
                      uint64_t micro_batches, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kDouble).device(device);
  const at::Tensor none = at::full({}, -0.0, options);
  std::vector<at::Tensor> mine;
  for (const LossTree::Entry& entry : nodes) mine.push_back(entry.node.defined() ? entry.node : none);
  std::vector<uint64_t> counts;
  uint64_t total = 0;
  for (int32_t r = 0; r < group.world_size(); ++r) {
    counts.push_back(nodes_of_rank(r, micro_batches).size());
    total += counts.back();
  }
  const at::Tensor sent = at::stack(mine), all = at::empty({static_cast<int64_t>(total)}, options);
  group.all_gather(to_buffer(sent, "loss"), to_buffer(all), counts.data()).wait();
  LossTree tree = make_loss_tree();
  int64_t at = 0;
  for (int32_t r = 0; r < group.world_size(); ++r) {
    for (const auto& node : nodes_of_rank(r, micro_batches))
      tree.push_node({node.level, node.index, all[at++]});
  }
  return tree.finish();
}

// While one range is added up, the next one travels.
at::Tensor sum_all(const TreeExchange& exchange, const Communicator& group, int64_t length, int64_t range,
                   at::Device device) {
  at::Tensor all = at::empty({length}, at::TensorOptions().dtype(at::kFloat).device(device));
  const auto cuts_at = [&](int64_t begin) {
    return even_cuts(begin, std::min(begin + range, length), group.world_size());
  };
  std::optional<TreeExchange::Flight> flight;
  if (length > 0) flight.emplace(exchange.start(cuts_at(0)));
  for (int64_t begin = 0; begin < length; begin += range) {
    TreeExchange::Flight current = std::move(*flight);
    flight.reset();
    if (begin + range < length) flight.emplace(exchange.start(cuts_at(begin + range)));
    const auto cuts = cuts_at(begin);
    std::vector<uint64_t> counts;
    for (size_t r = 0; r + 1 < cuts.size(); ++r)
      counts.push_back(static_cast<uint64_t>(cuts[r + 1] - cuts[r]));
    const at::Tensor part = exchange.sum(std::move(current));
    group
        .all_gather(to_buffer(part, "gradient sums"), to_buffer(all.narrow(0, begin, cuts.back() - begin)),
                    counts.data())
        .wait();
  }
  return all;
}

// The way of reproducible mode: each rank adds its block of micro-batches along the fixed tree, and after the
// backward pass the ranks finish the tree together, a range of the arena at a time and each a part of it.
// Same bits as in one process.
class TreeReduction : public Reduction {
 public:
  TreeReduction(const Context& context, const Communicator& group, std::shared_ptr<const Layout> layout,
                at::Device device, int64_t range, uint64_t micro_batches)
      : context_(context),
        group_(group),
        layout_(std::move(layout)),
        device_(device),
        range_(range),
        planned_(micro_batches),
        gradients_(layout_, /*fixed_tree=*/true) {}

  void begin(uint64_t micro_batches) override {
    micro_batches_ = micro_batches;
    const uint64_t first = static_cast<uint64_t>(group_.rank()) * micro_batches;
    gradients_.restart(first);
    loss_.restart(first);
  }

  void add(size_t slot, const at::Tensor& gradient, bool owned) override {
    gradients_.add(slot, gradient, owned);
  }

  void end_micro_batch(at::Tensor loss) override {
    gradients_.end_micro_batch();
    loss_.push(std::move(loss));
  }

  StepSums finish() override {
    const std::vector<GradientSum::Node> nodes = gradients_.take_nodes();
    const TreeExchange exchange(group_, *layout_, nodes, micro_batches_, device_);
    at::Tensor loss = sum_losses(group_, loss_.take_nodes(), micro_batches_, device_);
    const std::vector<uint8_t> used = exchange.used_slots(context_);
    const at::Tensor all = sum_all(exchange, group_, layout_->trainable_length(), range_, device_);
    GradientRuns runs;
    for (size_t slot = 0; slot < layout_->trainable_slots(); ++slot) {
      const Slot& place = layout_->slots()[slot];
      if (used[slot] == 0) continue;
      runs.push_back({place.offset, all.narrow(0, place.offset, place.padded)});
    }
    return {std::move(runs), std::move(loss)};
  }

  void memory(const MemoryVisitor& visit) const override {
    const uint64_t bytes = static_cast<uint64_t>(layout_->trainable_length()) * sizeof(float);
    if (bytes == 0) return;
    const uint64_t nodes = tree_copies(planned_);
    visit("gradients", bytes);
    visit("gradients of the sum tree", nodes * bytes);
    // What is sent and received of two ranges at a time.
    visit("exchange of reproducible sums",
          4 * nodes * std::min(bytes, static_cast<uint64_t>(range_) * sizeof(float)));
  }

 private:
  const Context context_;
  const Communicator& group_;
  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  int64_t range_;
  uint64_t planned_;  // micro-batches of a step
  uint64_t micro_batches_ = 0;
  GradientSum gradients_;
  LossTree loss_ = make_loss_tree();
};

}  // namespace

std::unique_ptr<Reduction> tree_reduction(const Context& context, const Communicator& group,
                                          std::shared_ptr<const Layout> layout, at::Device device,
                                          int64_t range, uint64_t micro_batches) {
  return std::make_unique<TreeReduction>(context, group, std::move(layout), device, range, micro_batches);
}

}  // namespace pipeline::strategies
