#include "plugins/strategies/common/late_rows.hpp"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {
namespace {

void greatest_of_all(const Communicator* group, const at::Tensor& values, std::string_view label) {
  if (group != nullptr) group->all_reduce(to_buffer(values, label), PL_REDUCE_MAX).wait();
}

}  // namespace

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
