#include "plugins/strategies/sharded/step_figures.hpp"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "plugins/strategies/common/gradient_norm.hpp"

namespace pipeline::strategies {

void StepFigures::add(at::Tensor loss) {
  if (!loss.defined())
    loss = at::full({}, -0.0, at::TensorOptions().dtype(at::kDouble).device(ranks_.device()));
  losses_.push_back(std::move(loss));
}

StepFigures::Totals StepFigures::gather(const at::Tensor& squares) const {
  const at::Tensor own = in_chunks_ ? squares : in_order_sum(squares).view({1});
  // By rank: the losses of its micro-batches, then its sums of squares.
  const at::Tensor rows = ranks_.gather_rows(at::cat({at::stack(losses_), own}));
  const auto losses = static_cast<int64_t>(losses_.size());
  const at::Tensor others = rows.narrow(0, 0, partition_.world_size()).narrow(1, losses, own.numel());
  return {loss_of(rows.narrow(1, 0, losses)),
          in_chunks_ ? squares_by_loss(in_order_of_arena(others), layout_)
                     : in_order_sum(others.reshape({-1}).contiguous()).view({1})};
}

// The loss, along the tree over all micro-batches, in their order: SumTree's sums, a level at a time.
at::Tensor StepFigures::loss_of(const at::Tensor& rows) const {
  at::Tensor level = (interleaved_ ? rows.t() : rows).reshape({-1}), rest;
  for (; level.numel() > 1;
       level = level.slice(0, 0, level.numel() / 2 * 2, 2) + level.slice(0, 1, level.numel(), 2)) {
    if (level.numel() % 2 == 0) continue;
    const at::Tensor last = level[-1];
    rest = rest.defined() ? last + rest : last;
  }
  return rest.defined() ? level[0] + rest : level[0];
}

at::Tensor StepFigures::in_order_of_arena(const at::Tensor& rows) const {
  std::vector<at::Tensor> in_order{at::empty({0}, rows.options())};
  int64_t first = 0;
  for (size_t bucket = 0; bucket < partition_.trainable_buckets(); ++bucket) {
    const int64_t count = partition_.part_length(bucket) / kChunk;
    in_order.push_back(rows.narrow(1, first, count).reshape({-1}));
    first += count;
  }
  return at::cat(in_order);
}

}  // namespace pipeline::strategies
