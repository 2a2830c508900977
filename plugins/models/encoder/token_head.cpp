#include "plugins/models/encoder/token_head.hpp"

#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "transformer/cross_entropy_head.hpp"
#include "transformer/gelu.hpp"

namespace pipeline::encoder {

transformer::Linear head_linear(const Architecture& row, ParameterRegistry& parameters, const char* name,
                                int64_t in, int64_t out, double deviation) {
  if (row.has_bias_in_head) return transformer::add_linear(parameters, name, in, out, 0, deviation);
  return {transformer::add_matrix(parameters, name, in, out, 0, deviation), {}};
}

TokenHead::TokenHead(const Architecture& row, const Config& config, ParameterRegistry& parameters,
                     const at::Tensor& words)
    : weight_(words),
      gelu_(row.head_has_own_gelu ? transformer::Gelu::kExact : transformer::gelu_named(config.hidden_act)) {
  const int64_t width = config.hidden_size, tokens = config.vocab_size;
  const double deviation = config.initializer_range;
  const Names& names = row.names;
  dense_ = head_linear(row, parameters, names.head_dense, width, width, deviation);
  norm_ = transformer::add_norm(parameters, names.head_norm, width, 0, config.layer_norm_eps,
                                row.has_bias_in_head);
  if (names.decoder != nullptr)
    weight_ = parameters.add(
        {.name = std::string(names.decoder) + ".weight", .shape = {tokens, width}, .forms = PL_FORM_BFLOAT16},
        normal(deviation));
  bias_ = parameters.add({.name = names.head_bias, .shape = {tokens}, .decay = false}, constant(0));
}

// What the head's own norm takes: fp32.
at::Tensor TokenHead::input(const at::Tensor& x, const transformer::Norm& last_norm,
                            at::ScalarType compute) const {
  const at::Tensor y = last_norm.weight.defined() ? transformer::norm_linear(x, last_norm, dense_, compute)
                                                  : transformer::linear(x.to(compute), dense_);
  return transformer::gelu(y.to(x.scalar_type()), gelu_);
}

LossSum TokenHead::loss(const at::Tensor& x, const transformer::Norm& last_norm, const at::Tensor& targets,
                        const ForwardPass& pass, const at::Tensor& row_losses) const {
  return transformer::cross_entropy_head(
      input(x, last_norm, pass.compute), targets, norm_, weight_,
      {.scale = pass.scale, .compute = pass.compute, .factor_is_one = true, .row_losses = row_losses}, bias_);
}

at::Tensor TokenHead::logits(const at::Tensor& x, const transformer::Norm& last_norm,
                             at::ScalarType compute) const {
  const at::NoGradGuard no_grad;
  return transformer::head_logits(input(x, last_norm, compute), norm_, weight_, compute, bias_);
}

}  // namespace pipeline::encoder
