// The ways in which attention is computed; attention.cpp chooses one. What they take and return is described
// in attention.hpp, unless it says otherwise here.
#pragma once

#include "attention.hpp"

namespace pipeline::transformer {

// Columns q, k, v of qkv (N, ...) or of its gradient.
struct Parts {
  at::Tensor q, k, v;
};
Parts parts_of(const at::Tensor& qkv, const AttentionLayout& layout);

at::Tensor for_each_head(const at::Tensor& k, const AttentionLayout& layout);

// Our own kernels: float32 on the CPU.
bool kernels_take(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias);
at::Tensor attention_by_kernels(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionLayout& layout, const Dropout& dropout,
                                const at::Tensor& bias);
at::Tensor self_attention_by_kernels(const at::Tensor& qkv, const AttentionLayout& layout,
                                     const Dropout& dropout, const at::Tensor& bias);

// LibTorch's flash attention: all sequences in one call, where flash_can(). Its dropout is its own: the mask
// is a function of the key, but another one than dropout_mask()'s.
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionLayout& layout, const Dropout& dropout);
at::Tensor flash_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout);

// cuDNN's, where cudnn_can().
at::Tensor cudnn_self_attention(const at::Tensor& qkv, const AttentionLayout& layout);

}  // namespace pipeline::transformer
