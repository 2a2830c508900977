#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pipeline::transformer {

// Dropout whose mask is a function of (key, row, column) alone: nothing is stored for the backward pass, and
// neither threads, device nor recomputation can change it. Each place in a model uses its own key. On a
// device and in a narrow dtype the mask is another one, drawn by the device's generator from the key.
struct Dropout {
  double p = 0;
  uint64_t key = 0;

  bool active() const { return p > 0; }
  uint32_t threshold() const;  // hash below it: dropped
  float scale() const { return static_cast<float>(1 / (1 - p)); }
};

// The key of one place in a model: `seed` belongs to the micro-batch, `site` numbers the place.
uint64_t dropout_key(uint64_t seed, uint64_t site);

// Whether LibTorch's generator of the device draws the mask: a few kernels instead of a dozen passes.
bool draws_on_device(const at::Tensor& x);
// x, of any shape, where the device draws. Differentiable.
at::Tensor dropped_on_device(const at::Tensor& x, const Dropout& dropout);

// x (rows, columns) * mask [+ residual]; written over x when `in_place`.
at::Tensor apply_dropout(const at::Tensor& x, const Dropout& dropout, const at::Tensor& residual = {},
                         bool in_place = false);

// x * mask, differentiable, on any device.
at::Tensor dropped(const at::Tensor& x, const Dropout& dropout);

// The mask itself, 0 or scale(), for code without a kernel of its own, where !draws_on_device(). `rows` are
// numbered from first_row.
at::Tensor dropout_mask(const Dropout& dropout, int64_t first_row, int64_t rows, int64_t columns,
                        at::TensorOptions options);

}  // namespace pipeline::transformer
