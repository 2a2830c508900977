#include "plugins/strategies/common/gradient_sum.hpp"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/collective.hpp"

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

void greatest_of_all(const Communicator* group, const at::Tensor& values, std::string_view label) {
  if (group != nullptr) group->all_reduce(to_buffer(values, label), PL_REDUCE_MAX).wait();
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

void GradientReceiver::take(size_t slot, Gradient& gradient) {
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
      gradients_(layout_, fixed_tree) {
  if (!fixed_tree && micro_batches > 1 && layout_->trainable_length() > 0)
    bound_ = at::zeros({layout_->trainable_length()}, at::TensorOptions(device).dtype(at::kFloat));
}

void LocalReduction::begin(uint64_t /*micro_batches*/) {
  if (bound_.defined()) bound_.zero_();
  gradients_.clear();
  loss_.clear();
}

void LocalReduction::add(size_t slot, const at::Tensor& gradient, bool owned) {
  if (!bound_.defined()) return gradients_.add(slot, gradient, owned);
  const Slot& place = layout_->slots()[slot];
  at::Tensor sum = bound_run(place).narrow(0, 0, place.count);
  if (gradient.const_data_ptr() != sum.const_data_ptr()) sum.add_(gradient.reshape({place.count}));
}

void* LocalReduction::bound_gradient(size_t parameter) const {
  const bool is_bound = bound_.defined() && layout_->slot_index(parameter) < layout_->trainable_slots();
  return is_bound ? bound_run(layout_->slot_of(parameter)).mutable_data_ptr() : nullptr;
}

void LocalReduction::end_micro_batch(at::Tensor loss) {
  gradients_.end_micro_batch();
  loss_.push(std::move(loss));
}

StepSums LocalReduction::finish() {
  at::Tensor loss = loss_.finish();
  if (!loss.defined()) loss = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device_));
  if (!bound_.defined()) return {gradients_.finish(), std::move(loss)};
  GradientRuns runs;
  for (size_t slot = 0; slot < layout_->trainable_slots(); ++slot)
    runs.push_back({layout_->slots()[slot].offset, bound_run(layout_->slots()[slot])});
  return {std::move(runs), std::move(loss)};
}

void LocalReduction::memory(const MemoryVisitor& visit) const {
  const uint64_t bytes = static_cast<uint64_t>(layout_->trainable_length()) * sizeof(float);
  if (bytes == 0) return;
  visit("gradients", bytes);
  if (copies_ > 1) visit("gradients of the sum tree", (copies_ - 1) * bytes);
}

void LateRows::add(size_t slot, const at::Tensor& rows, const at::Tensor& values) {
  if (rows.numel() == 0) return;
  at::Tensor own = values.reshape({rows.numel(), -1}).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  parts_.push_back({slot, rows.clone(), std::move(own)});
}

void LateRows::move_to(GradientSum& sum, size_t slot) {
  std::erase_if(parts_, [&](const Part& part) {
    if (part.slot == slot) sum.add_rows(slot, part.rows, part.values);
    return part.slot == slot;
  });
}

void LateRows::Sum::add_to(const at::Tensor& elements, int64_t begin) const {
  const int64_t width = values.size(1), end = begin + elements.numel();
  const int64_t *ids = rows.const_data_ptr<int64_t>(), *ids_end = ids + rows.numel();
  const int64_t first = (begin + width - 1) / width, last = end / width;  // whole rows
  const int64_t *a = std::lower_bound(ids, ids_end, first), *b = std::lower_bound(ids, ids_end, last);
  if (a < b) {
    elements.narrow(0, first * width - begin, (last - first) * width)
        .view({-1, width})
        .index_add_(0, rows.narrow(0, a - ids, b - a) - first, values.narrow(0, a - ids, b - a));
  }
  const auto add_cut_row = [&](int64_t row) {
    const int64_t* found = std::lower_bound(ids, ids_end, row);
    if ((first <= row && row < last) || found == ids_end || *found != row) return;
    const int64_t from = std::max(begin, row * width), count = std::min(end, (row + 1) * width) - from;
    elements.narrow(0, from - begin, count).add_(values[found - ids].narrow(0, from - row * width, count));
  };
  add_cut_row(begin / width);
  if ((end - 1) / width != begin / width) add_cut_row((end - 1) / width);
}

std::vector<LateRows::Sum> LateRows::finish(const Communicator* group, at::Device device) {
  // How long a row is, 0 where no rank has any.
  std::vector<int64_t> own(layout_->trainable_slots());
  for (const Part& part : parts_) own[part.slot] = part.values.size(1);
  at::Tensor widths = at::tensor(own, at::kLong).to(device);
  greatest_of_all(group, widths, "widths of late rows");
  widths = widths.cpu();
  std::vector<Sum> sums;
  for (size_t slot = 0; slot < own.size(); ++slot) {
    if (const int64_t width = widths.const_data_ptr<int64_t>()[slot]; width > 0)
      sums.push_back(sum_of(slot, width, group, device));
  }
  clear();
  return sums;
}

LateRows::Sum LateRows::sum_of(size_t slot, int64_t width, const Communicator* group,
                               at::Device device) const {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const at::Tensor flags = at::zeros({layout_->slots()[slot].count / width}, options.dtype(at::kByte));
  for (const Part& part : parts_) {
    if (part.slot == slot) flags.index_fill_(0, part.rows, 1);
  }
  greatest_of_all(group, flags, "which late rows");
  at::Tensor rows = flags.nonzero().squeeze(1);
  const at::Tensor place = flags.cumsum(0, at::kLong).sub_(1);
  at::Tensor values = at::zeros({rows.numel(), width}, options);
  for (const Part& part : parts_) {
    if (part.slot == slot) values.index_add_(0, place.index_select(0, part.rows), part.values);
  }
  if (group != nullptr) group->all_reduce(to_buffer(values, "late rows")).wait();
  return {slot, std::move(rows), std::move(values)};
}

}  // namespace pipeline::strategies
