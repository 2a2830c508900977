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

class NormMlpResidual : public torch::autograd::Function<NormMlpResidual> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                          const Variable& norm_bias, const Variable& up_weight, const Variable& up_bias,
                          const Variable& down_weight, const Variable& down_bias, double eps, double p,
                          int64_t key, int64_t compute, int64_t form) {
    const Dropout dropout{p, static_cast<uint64_t>(key)};
    const auto dtype = static_cast<at::ScalarType>(compute);
    const LayerNormed normed = layer_norm(x, norm_weight, norm_bias, eps);
    at::Tensor pre, h;  // (N, inner)
    {
      const at::Tensor input = normed.y.to(dtype);
      pre = at::empty({x.size(0), up_weight.size(1)}, input.options());
      h = at::empty_like(pre);
      gemm_out(pre, input, up_weight.to(dtype),
               {.bias = up_bias.to(dtype), .gelu = h, .gelu_form = static_cast<Gelu>(form)});
    }
    at::Tensor y;
    if (!dropout.active() && x.scalar_type() == dtype) {
      y = gemm(h, down_weight, {.bias = down_bias, .addend = x});
    } else {
      y = gemm(h, down_weight.to(dtype), {.bias = down_bias.to(dtype)}).to(x.scalar_type());
      y = dropout.active() ? apply_dropout(y, dropout, x, true) : y.add(x);
    }
    ctx->save_for_backward({x, norm_weight, norm_bias, up_weight, up_bias, down_weight, down_bias,
                            normed.mean, normed.rstd, pre});
    ctx->saved_data["p"] = p;
    ctx->saved_data["key"] = key;
    ctx->saved_data["form"] = form;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor &x = t[0], &norm_weight = t[1], &norm_bias = t[2], &up_weight = t[3], &up_bias = t[4],
                     &down_weight = t[5], &down_bias = t[6], &mean = t[7], &rstd = t[8], &pre = t[9];
    const Dropout dropout{ctx->saved_data["p"].toDouble(),
                          static_cast<uint64_t>(ctx->saved_data["key"].toInt())};
    const at::Tensor dresidual = grads[0].contiguous();
    const at::Tensor dy =
        (dropout.active() ? apply_dropout(dresidual, dropout) : dresidual).to(pre.scalar_type());

    auto [h, dpre] = gelu_again_and_backward(pre, input_gradient(dy, down_weight),
                                             static_cast<Gelu>(ctx->saved_data["form"].toInt()));
    const at::Tensor ddown_weight = weight_gradient(h, dy, down_weight, ctx->needs_input_grad(5));
    const at::Tensor ddown_bias = bias_gradient(dy, down_bias, ctx->needs_input_grad(6));
    h.reset();

    at::Tensor dup_weight;
    if (ctx->needs_input_grad(3)) {
      const at::Tensor normed =
          layer_norm_again(x, norm_weight, norm_bias, mean, rstd).to(dpre.scalar_type());
      dup_weight = weight_gradient(normed, dpre, up_weight, true);
    }
    const at::Tensor dup_bias = bias_gradient(dpre, up_bias, ctx->needs_input_grad(4));
    const bool need_norm = ctx->needs_input_grad(1) || ctx->needs_input_grad(2);
    LayerNormGradients d;
    if (ctx->needs_input_grad(0) || need_norm) {
      const at::Tensor dnormed = input_gradient(dpre, up_weight);
      dpre.reset();
      d = layer_norm_backward(dnormed, x, norm_weight, norm_bias, mean, rstd, dresidual,
                              ctx->needs_input_grad(0), need_norm);
    }
    return {d.x,        d.weight,   d.bias,     dup_weight, dup_bias,   ddown_weight,
            ddown_bias, Variable(), Variable(), Variable(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor norm_mlp_residual(const at::Tensor& x, const Norm& norm, const Linear& up, const Linear& down,
                             const Dropout& dropout, at::ScalarType compute, Gelu form) {
  return NormMlpResidual::apply(x, norm.weight, norm.bias, up.weight, up.bias, down.weight, down.bias,
                                norm.eps, dropout.p, static_cast<int64_t>(dropout.key),
                                static_cast<int64_t>(compute), static_cast<int64_t>(form));
}

}  // namespace pipeline::transformer
