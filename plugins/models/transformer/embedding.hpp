#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "dropout.hpp"

namespace pipeline::transformer {

// The gradient of a matrix that is both embedding and output head. The head's backward pass comes first and
// leaves its part here; the embedding's adds its rows to it and hands the sum to autograd, so that the large
// matrix is written and passed on once.
//
// Whoever can use each part as soon as it is there gets both, instead of autograd: the head's, and the
// embedding's as rows (K) int64 with values (K, C).
struct SharedGradient {
  at::Tensor value;
  std::function<void(at::Tensor head)> take_head = nullptr;  // both or none
  std::function<void(const at::Tensor& rows, const at::Tensor& values)> take_rows = nullptr;
};

// What takes the place of tokens, such as features of a picture: values (K, C) at rows (K) int64. The tokens
// there may be any and get no gradient.
struct Inserted {
  at::Tensor rows, values;  // undefined: nothing
};

// Throws unless all are 0 .. size - 1; on another device that is left to what uses them. what: "token".
void check_range(const at::Tensor& index, int64_t size, const char* what);

// dropout(table[tokens] + positions_table[positions]): (N, C). tokens, positions: (N) int64. positions_table
// may be undefined: the model has its positions elsewhere.
// `shared`: see SharedGradient; null when the table is not tied to a head. `type`: of the result; none: the
// table's.
at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions, const at::Tensor& table,
                 const at::Tensor& positions_table, const Dropout& dropout,
                 const std::shared_ptr<SharedGradient>& shared = nullptr, const Inserted& inserted = {},
                 std::optional<at::ScalarType> type = {});

// table[index], (N, C), of a small table, which is converted as a whole. Here as there the gradients of a row
// that was taken many times add up in float32, whatever the table's type: in bfloat16 a sum stands still at
// some 256 times what is added.
at::Tensor look_up(const at::Tensor& table, const at::Tensor& index);

}  // namespace pipeline::transformer
