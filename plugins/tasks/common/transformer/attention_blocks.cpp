#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "blocks.hpp"
#include "gemm.hpp"
#include "layer_norm.hpp"
#include "linear_gradients.hpp"

namespace pipeline::transformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

class NormLinear : public torch::autograd::Function<NormLinear> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                          const Variable& norm_bias, const Variable& weight, const Variable& bias, double eps,
                          int64_t compute) {
    const auto dtype = static_cast<at::ScalarType>(compute);
    const LayerNormed normed = layer_norm(x, norm_weight, norm_bias, eps);
    at::Tensor y = gemm(normed.y.to(dtype), weight.to(dtype), {.bias = bias.to(dtype)});
    ctx->save_for_backward({x, norm_weight, norm_bias, weight, bias, normed.mean, normed.rstd});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor &x = t[0], &norm_weight = t[1], &norm_bias = t[2], &weight = t[3], &bias = t[4],
                     &mean = t[5], &rstd = t[6];
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor dweight;
    if (ctx->needs_input_grad(3)) {
      const at::Tensor normed = layer_norm_again(x, norm_weight, norm_bias, mean, rstd).to(dy.scalar_type());
      dweight = weight_gradient(normed, dy, weight, true);
    }
    const at::Tensor dbias = bias_gradient(dy, bias, ctx->needs_input_grad(4));
    const bool need_norm = ctx->needs_input_grad(1) || ctx->needs_input_grad(2);
    LayerNormGradients d;
    if (ctx->needs_input_grad(0) || need_norm) {
      d = layer_norm_backward(input_gradient(dy, weight), x, norm_weight, norm_bias, mean, rstd, {},
                              ctx->needs_input_grad(0), need_norm);
    }
    return {d.x, d.weight, d.bias, dweight, dbias, Variable(), Variable()};
  }
};

class LinearResidual : public torch::autograd::Function<LinearResidual> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& h, const Variable& weight,
                          const Variable& bias, const Variable& residual, double p, int64_t key) {
    const Dropout dropout{p, static_cast<uint64_t>(key)};
    const auto dtype = h.scalar_type();
    const bool same = residual.scalar_type() == dtype;
    at::Tensor y;
    if (dropout.active()) {
      y = apply_dropout(gemm(h, weight.to(dtype), {.bias = bias.to(dtype)}).to(residual.scalar_type()),
                        dropout, residual, true);
    } else if (same) {
      y = gemm(h, weight, {.bias = bias, .addend = residual});
    } else {
      y = residual + gemm(h, weight.to(dtype), {.bias = bias.to(dtype)});
    }
    ctx->save_for_backward({h, weight, bias});
    ctx->saved_data["p"] = p;
    ctx->saved_data["key"] = key;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor &h = t[0], &weight = t[1], &bias = t[2];
    const at::Tensor dresidual = grads[0].contiguous();
    const Dropout dropout{ctx->saved_data["p"].toDouble(),
                          static_cast<uint64_t>(ctx->saved_data["key"].toInt())};
    const at::Tensor dy =
        (dropout.active() ? apply_dropout(dresidual, dropout) : dresidual).to(h.scalar_type());
    return {ctx->needs_input_grad(0) ? input_gradient(dy, weight) : Variable(),
            weight_gradient(h, dy, weight, ctx->needs_input_grad(1)),
            bias_gradient(dy, bias, ctx->needs_input_grad(2)),
            ctx->needs_input_grad(3) ? dresidual : Variable(),
            Variable(),
            Variable()};
  }
};

}  // namespace

Linear columns(const Linear& linear, int64_t first, int64_t count) {
  return {linear.weight.narrow(1, first, count), linear.bias.narrow(0, first, count)};
}

at::Tensor norm_linear(const at::Tensor& x, const Norm& norm, const Linear& linear, at::ScalarType compute) {
  return NormLinear::apply(x, norm.weight, norm.bias, linear.weight, linear.bias, norm.eps,
                           static_cast<int64_t>(compute));
}

at::Tensor linear_residual(const at::Tensor& h, const Linear& linear, const at::Tensor& residual,
                           const Dropout& dropout) {
  return LinearResidual::apply(h, linear.weight, linear.bias, residual, dropout.p,
                               static_cast<int64_t>(dropout.key));
}

}  // namespace pipeline::transformer
