#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace pipeline::transformer {

// The gradient of a matrix that is both embedding and output head. The head's backward pass comes first and
// leaves its part here; the embedding's adds its rows to it and hands the sum to autograd, so that the large
// matrix is written and passed on once.
//
// Or, for who can use each part as soon as it is there, both go there instead of to autograd: the head's, and
// the embedding's as rows (K) int64 with values (K, C).
struct SharedGradient {
  at::Tensor value;
  std::function<void(at::Tensor head)> take_head = nullptr;  // both or none
  std::function<void(const at::Tensor& rows, const at::Tensor& values)> take_rows = nullptr;
};

}  // namespace pipeline::transformer
