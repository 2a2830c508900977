#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "dropout.hpp"
#include "shared_gradient.hpp"

namespace pipeline::transformer {

// dropout(table[tokens] + positions_table[positions]): (N, C). tokens, positions: (N) int64.
// `shared`: see SharedGradient; null when the table is not tied to a head.
at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions, const at::Tensor& table,
                 const at::Tensor& positions_table, const Dropout& dropout,
                 std::shared_ptr<SharedGradient> shared = nullptr);

// table[index], (N, C), of a small table, which is converted as a whole. Here as there the gradients of a row
// that was taken many times add up in float32, whatever the table's type: in bfloat16 a sum stands still at
// some 256 times what is added.
at::Tensor look_up(const at::Tensor& table, const at::Tensor& index);

}  // namespace pipeline::transformer
