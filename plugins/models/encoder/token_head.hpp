#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "plugins/models/encoder/architecture.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::encoder {

// A matrix of a head, in unit 0, with a bias where the row's heads have them.
transformer::Linear head_linear(const Architecture& row, ParameterRegistry& parameters, const char* name,
                                int64_t in, int64_t out, double deviation);

// What makes tokens of an encoder's last layer, for those that were hidden: dense, GELU, norm, and a table of
// tokens, which may be the embedding.
class TokenHead {
 public:
  TokenHead() = default;
  // Declares its parameters in unit 0, by the row's names. words: (tokens, C), the embedding.
  TokenHead(const Architecture& row, const Config& config, ParameterRegistry& parameters,
            const at::Tensor& words);

  // The loss of rows x (T, C), and logits (T, tokens) fp32, which are not differentiable. last_norm: of the
  // encoder; undefined: x has passed it. Called within unit 0. row_losses: see transformer::HeadOptions.
  LossSum loss(const at::Tensor& x, const transformer::Norm& last_norm, const at::Tensor& targets,
               const ForwardPass& pass, const at::Tensor& row_losses = {}) const;
  at::Tensor logits(const at::Tensor& x, const transformer::Norm& last_norm, at::ScalarType compute) const;

  int64_t tokens() const { return bias_.numel(); }

 private:
  at::Tensor input(const at::Tensor& x, const transformer::Norm& last_norm, at::ScalarType compute) const;

  transformer::Linear dense_;
  transformer::Norm norm_;
  at::Tensor weight_, bias_;  // (tokens, C); (tokens)
  transformer::Gelu gelu_ = transformer::Gelu::kExact;
};

}  // namespace pipeline::encoder
