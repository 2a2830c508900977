#include "plugins/strategies/common/reduction.hpp"

#include <utility>

#include <ATen/ops/zeros.h>

namespace pipeline::strategies {
namespace {

// A tensor over the memory of a gradient that was handed over; frees it when the last reference goes.
at::Tensor adopt(Gradient& gradient) {
  at::Tensor view = to_torch(gradient.tensor());
  // std::function wants a copyable deleter, and the owner is not.
  auto owner = std::make_shared<Gradient::Owner>(gradient.take_owner());
  return at::for_blob(view.mutable_data_ptr(), view.sizes())
      .strides(view.strides())
      .options(view.options())
      .target_device(view.device())
      .deleter([owner](void*) {})  // the owner goes with the deleter
      .make_tensor();
}

}  // namespace

void GradientSink::take(size_t slot, Gradient& gradient) {
  if (gradient.rows() != nullptr)
    return add_rows(slot, to_torch(*gradient.rows()), to_torch(gradient.tensor()));
  const bool owned = gradient.is_handed_over();
  add(slot, owned ? adopt(gradient) : to_torch(gradient.tensor()), owned);
}

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
