#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace pipeline::transformer {

// The gradient of a matrix that is both embedding and output head. The head's backward pass comes first and
// leaves its part here; the embedding's adds its rows to it and hands the sum to autograd, so that the large
// matrix is written and passed on once.
struct SharedGradient {
  at::Tensor value;
};

}  // namespace pipeline::transformer
