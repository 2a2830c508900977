#pragma once

#include <pipeline/torch/forward.hpp>

#include <ATen/core/Tensor.h>

#include <memory>

#include "blocks.hpp"
#include "distillation.hpp"
#include "embedding.hpp"
#include "kernels/forms.hpp"

namespace pipeline::transformer {

struct HeadOptions {
  double scale = 1;   // known before the backward pass, so that no gradient is multiplied afterwards
  int64_t chunk = 0;  // rows whose logits exist at a time, 0: our choice; it changes the order of sums
  at::ScalarType compute = at::kFloat;
  double softcap = 0;  // logits x become softcap * tanh(x / softcap); 0: they stay
  std::shared_ptr<SharedGradient> shared = nullptr;  // leave the gradient of `weight` there
  // backward() is called on `scaled` or on a sum with it, so that on a device, too, nothing is multiplied.
  bool factor_is_one = false;
  LossTerms terms = {};
  // (N) float32, receives the cross entropy of each row, without the terms; undefined: nobody asks
  at::Tensor row_losses = {};
  Distillation teacher = {};  // without `logits` and `likeliest`: there is none
};

// Final norm, output head (V, C) with or without `bias` (V), and cross-entropy over the rows of x (N, C);
// targets: (N) int64, each a token. Pick the rows that have a target before: the others would cost as much.
// When gradients are wanted they are computed in the forward pass, chunk by chunk, in one reused buffer of
// logits (chunk, V): the full logits never exist, and backward() only hands the gradients on.
// The sum is of the targets' negative log likelihoods, in nats, with the terms, or with a teacher of the
// mixture with the divergence from it, and not differentiable; its scaled form is.
LossSum cross_entropy_head(const at::Tensor& x, const at::Tensor& targets, const Norm& norm,
                           const at::Tensor& weight, const HeadOptions& options, const at::Tensor& bias = {});

// The cross entropy of each row, (N) float32, for losses that are not their sum. backward() computes the
// logits again, chunk by chunk: a third more work in the head. Without scale and terms.
at::Tensor cross_entropy_rows(const at::Tensor& x, const at::Tensor& targets, const Norm& norm,
                              const at::Tensor& weight, const HeadOptions& options,
                              const at::Tensor& bias = {});

// Logits of the rows of x: (N, V) fp32. Not differentiable.
at::Tensor head_logits(const at::Tensor& x, const Norm& norm, const at::Tensor& weight,
                       at::ScalarType compute, const at::Tensor& bias = {}, double softcap = 0);

}  // namespace pipeline::transformer
