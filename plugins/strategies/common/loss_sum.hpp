#pragma once

#include <ATen/ATen.h>

#include <pipeline/torch/tensor.hpp>

#include "plugins/strategies/common/sum_tree.hpp"

namespace pipeline::strategies {

// Losses of micro-batches are added along the tree, too, in double; undefined: none.
using LossTree = SumTree<at::Tensor>;

inline LossTree make_loss_tree() {
  return LossTree([](at::Tensor& into, at::Tensor&& right) {
    if (!into.defined()) {
      into = std::move(right);
    } else if (right.defined()) {
      into.add_(right);
    }
  });
}

// What the task reports, kept after the call; undefined for a rank without a micro-batch.
inline at::Tensor keep_loss(const pl_tensor* loss) {
  if (loss == nullptr) return {};
  return to_torch(*loss).reshape({}).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace pipeline::strategies
