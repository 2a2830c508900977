#include "plugins/strategies/common/reduction.hpp"

#include <utility>

namespace pipeline::strategies {

LocalReduction::LocalReduction(std::shared_ptr<const Layout> layout, at::Device device, bool fixed_tree,
                               uint64_t micro_batches)
    : layout_(std::move(layout)),
      device_(device),
      copies_(fixed_tree ? tree_copies(micro_batches) : 1),
      gradients_(layout_, fixed_tree) {}

void LocalReduction::begin(uint64_t /*micro_batches*/) {
  gradients_.clear();
  loss_.clear();
}

void LocalReduction::add(size_t slot, const at::Tensor& gradient, bool owned) {
  gradients_.add(slot, gradient, owned);
}

void LocalReduction::end_micro_batch(at::Tensor loss) {
  gradients_.end_micro_batch();
  loss_.push(std::move(loss));
}

StepSums LocalReduction::finish() {
  at::Tensor loss = loss_.finish();
  if (!loss.defined()) loss = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device_));
  return {gradients_.finish(), std::move(loss)};
}

void LocalReduction::memory(const MemoryVisitor& visit) const {
  const uint64_t bytes = static_cast<uint64_t>(layout_->trainable_length()) * sizeof(float);
  if (bytes == 0) return;
  visit("gradients", bytes);
  if (copies_ > 1) visit("gradients of the sum tree", (copies_ - 1) * bytes);
}

}  // namespace pipeline::strategies
