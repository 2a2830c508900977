#include "plugins/strategies/ddp/tree_reduction.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {

TreeReduction::TreeReduction(const Context& context, const Communicator& group,
                             std::shared_ptr<const Layout> layout, at::Device device, int64_t range,
                             uint64_t micro_batches)
    : context_(context),
      group_(group),
      layout_(std::move(layout)),
      device_(device),
      range_(range),
      planned_(micro_batches),
      gradients_(layout_, /*fixed_tree=*/true) {}

void TreeReduction::begin(uint64_t micro_batches) {
  micro_batches_ = micro_batches;
  const uint64_t first = static_cast<uint64_t>(group_.rank()) * micro_batches;
  gradients_.restart(first);
  loss_.restart(first);
}

void TreeReduction::add(size_t slot, const at::Tensor& gradient, bool owned) {
  gradients_.add(slot, gradient, owned);
}

void TreeReduction::end_micro_batch(at::Tensor loss) {
  gradients_.end_micro_batch();
  loss_.push(std::move(loss));
}

// While one range is added up, the next one travels.
at::Tensor TreeReduction::sum_all(const TreeExchange& exchange) const {
  const int64_t length = layout_->trainable_length();
  at::Tensor all = at::empty({length}, at::TensorOptions().dtype(at::kFloat).device(device_));
  const auto cuts_at = [&](int64_t begin) {
    return even_cuts(begin, std::min(begin + range_, length), group_.world_size());
  };
  std::optional<TreeExchange::Flight> flight;
  if (length > 0) flight.emplace(exchange.start(cuts_at(0)));
  for (int64_t begin = 0; begin < length; begin += range_) {
    TreeExchange::Flight current = std::move(*flight);
    flight.reset();
    if (begin + range_ < length) flight.emplace(exchange.start(cuts_at(begin + range_)));
    const auto cuts = cuts_at(begin);
    std::vector<uint64_t> counts;
    for (size_t r = 0; r + 1 < cuts.size(); ++r)
      counts.push_back(static_cast<uint64_t>(cuts[r + 1] - cuts[r]));
    const at::Tensor part = exchange.sum(std::move(current));
    group_
        .all_gather(to_buffer(part, "gradient sums"), to_buffer(all.narrow(0, begin, cuts.back() - begin)),
                    counts.data())
        .wait();
  }
  return all;
}

StepSums TreeReduction::finish() {
  const std::vector<GradientSum::Node> nodes = gradients_.take_nodes();
  const TreeExchange exchange(group_, *layout_, nodes, micro_batches_, device_);
  at::Tensor loss = sum_losses(group_, loss_.take_nodes(), micro_batches_, device_);
  const std::vector<uint8_t> used = exchange.used_slots(context_);
  const at::Tensor all = sum_all(exchange);
  GradientRuns runs;
  for (size_t slot = 0; slot < layout_->trainable_slots(); ++slot) {
    const Slot& place = layout_->slots()[slot];
    if (used[slot] == 0) continue;
    runs.push_back({place.offset, all.narrow(0, place.offset, place.padded)});
  }
  return {std::move(runs), std::move(loss)};
}

void TreeReduction::memory(const MemoryVisitor& visit) const {
  const uint64_t bytes = static_cast<uint64_t>(layout_->trainable_length()) * sizeof(float);
  if (bytes == 0) return;
  const uint64_t nodes = tree_copies(planned_);
  visit("gradients", bytes);
  visit("gradients of the sum tree", nodes * bytes);
  // What is sent and received of two ranges at a time.
  visit("exchange of reproducible sums",
        4 * nodes * std::min(bytes, static_cast<uint64_t>(range_) * sizeof(float)));
}

}  // namespace pipeline::strategies
