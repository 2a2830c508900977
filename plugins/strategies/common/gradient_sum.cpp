#include "plugins/strategies/common/gradient_sum.hpp"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace pipeline::strategies {
namespace {

// A gradient as a run of the arena: kept where it can be, otherwise copied.
at::Tensor to_run(const at::Tensor& gradient, const Slot& slot, bool owned, bool may_be_narrow) {
  const bool fits = may_be_narrow || gradient.scalar_type() == at::kFloat;
  if (owned && fits && gradient.is_contiguous() && slot.count == slot.padded) {
    return gradient.view({slot.count});
  }
  at::Tensor run = at::empty({slot.padded}, gradient.options().dtype(at::kFloat));
  run.narrow(0, 0, slot.count).copy_(gradient.reshape({slot.count}));
  if (slot.padded != slot.count) run.narrow(0, slot.count, slot.padded - slot.count).zero_();
  return run;
}

}  // namespace

GradientSum::GradientSum(std::shared_ptr<const Layout> layout, bool fixed_tree, bool may_be_narrow)
    : layout_(std::move(layout)),
      fixed_tree_(fixed_tree),
      may_be_narrow_(may_be_narrow),
      current_(layout_->trainable_slots()),
      tree_([](Gradients& into, Gradients&& right) {
        for (size_t slot = 0; slot < into.size(); ++slot) {
          if (!into[slot].defined()) {
            into[slot] = std::move(right[slot]);
          } else if (right[slot].defined()) {
            into[slot].add_(right[slot]);
          }
          right[slot].reset();
        }
      }) {}

void GradientSum::add(size_t slot, const at::Tensor& gradient, bool owned) {
  at::Tensor& sum = current_[slot];
  const Slot& place = layout_->slots()[slot];
  if (sum.defined()) {
    widened(slot).narrow(0, 0, place.count).add_(gradient.reshape({place.count}));
  } else {
    sum = to_run(gradient, place, owned, may_be_narrow_);
  }
}

const at::Tensor& GradientSum::widened(size_t slot) {
  at::Tensor& sum = current_[slot];
  if (sum.defined()) sum = sum.to(at::kFloat);
  return sum;
}

void GradientSum::add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values) {
  if (rows.numel() == 0) return;
  at::Tensor& sum = current_[slot];
  const Slot& place = layout_->slots()[slot];
  const at::Tensor added = values.reshape({rows.numel(), -1}).to(at::kFloat);
  if (!sum.defined()) sum = at::zeros({place.padded}, added.options());
  widened(slot).narrow(0, 0, place.count).view({-1, added.size(1)}).index_add_(0, rows, added);
}

void GradientSum::end_micro_batch() {
  if (fixed_tree_) tree_.push(std::exchange(current_, Gradients(layout_->trainable_slots())));
}

GradientRuns GradientSum::finish() {
  if (fixed_tree_) current_ = tree_.finish();
  GradientRuns runs;
  for (size_t slot = 0; slot < current_.size(); ++slot) {
    if (current_[slot].defined()) runs.push_back({layout_->slots()[slot].offset, std::move(current_[slot])});
  }
  clear();
  return runs;
}

void GradientSum::restart(uint64_t first) {
  tree_.restart(first);
  current_.assign(layout_->trainable_slots(), at::Tensor());
}

}  // namespace pipeline::strategies
