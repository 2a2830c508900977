#pragma once

#include <ATen/core/Tensor.h>

#include "attention.hpp"

namespace pipeline::transformer {

// The fast path: fp32 on the CPU, unit stride within rows.
bool attention_kernel_takes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// out: (Nq, C); log_sum: (heads, Nq), which the backward pass needs. bias: see ragged_attention;
// empty: none.
void attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                       const AttentionLayout& layout, const Dropout& dropout, at::Tensor& out,
                       at::Tensor& log_sum);

// dq, dk, dv are overwritten; rows may be strided (column slices of one tensor). dbias: as bias, overwritten;
// undefined where not wanted.
void attention_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                        const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& out,
                        const at::Tensor& log_sum, const at::Tensor& dout, at::Tensor& dq, at::Tensor& dk,
                        at::Tensor& dv, at::Tensor& dbias);

}  // namespace pipeline::transformer
