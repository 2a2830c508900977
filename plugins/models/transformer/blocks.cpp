#include "blocks.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "gated_unit.hpp"
#include "gelu.hpp"
#include "gemm.hpp"
#include "kept.hpp"
#include "layer_norm.hpp"

namespace pipeline::transformer {
namespace {

// A Function takes no undefined tensors: an empty one stands for none.
at::Tensor or_none(const at::Tensor& t, const at::Tensor& like) {
  return t.defined() ? t : at::empty({0}, like.options());
}
at::Tensor bias_in(const at::Tensor& bias, at::ScalarType type) {
  return bias.numel() > 0 ? bias.to(type) : at::Tensor();
}

// The norm's output for the gradient of the weights behind it: computed again, or on a device, where reading
// and writing it costs more than keeping it, kept. y: as it went into the product.
at::Tensor kept_normed(const at::Tensor& y, const at::Tensor& weight) {
  return kept_if(!y.is_cpu() && weight.requires_grad(), y);
}
at::Tensor normed_again(const at::Tensor& kept, const at::Tensor& x, const Norm& norm, const at::Tensor& mean,
                        const at::Tensor& rstd, at::ScalarType type) {
  if (!kept.is_cpu()) return kept;
  return layer_norm_again(x, norm.weight, norm.bias, mean, rstd).to(type);
}

// The gradients of x, of the norm and of W in norm(x) W, from `dy`, which is let go. The Function's first
// inputs are these: x, the norm's weight and bias, W. `residual`: see layer_norm_backward().
struct NormedProduct {
  const at::Tensor &x, &norm_weight, &norm_bias, &weight, &mean, &rstd, &kept_input;

  std::pair<LayerNormGradients, at::Tensor> backward(AutogradContext* ctx, at::Tensor& dy,
                                                     const at::Tensor& residual) const {
    std::pair<LayerNormGradients, at::Tensor> d;
    if (ctx->needs_input_grad(3)) {
      const at::Tensor normed =
          normed_again(kept_input, x, {norm_weight, norm_bias}, mean, rstd, dy.scalar_type());
      d.second = weight_gradient(normed, dy, weight, true);
    }
    const bool need_norm = ctx->needs_input_grad(1) || ctx->needs_input_grad(2);
    if (ctx->needs_input_grad(0) || need_norm) {
      const at::Tensor dnormed = input_gradient(dy, weight);
      dy.reset();
      d.first = layer_norm_backward(dnormed, x, norm_weight, norm_bias, mean, rstd, residual,
                                    ctx->needs_input_grad(0), need_norm);
    }
    return d;
  }
};

class NormRows : public torch::autograd::Function<NormRows> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& weight,
                          const Variable& bias, double eps) {
    const LayerNormed normed = layer_norm(x, weight, bias, eps);
    const bool needed = any_needs_gradient(x, weight, bias);
    ctx->save_for_backward(
        {kept_if(needed, x), weight, bias, kept_if(needed, normed.mean), kept_if(needed, normed.rstd)});
    return normed.y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const LayerNormGradients d =
        layer_norm_backward(grads[0].contiguous(), t[0], t[1], t[2], t[3], t[4], /*residual=*/{},
                            ctx->needs_input_grad(0), ctx->needs_input_grad(1) || ctx->needs_input_grad(2));
    return {d.x, d.weight, d.bias, Variable()};
  }
};

class NormLinear : public torch::autograd::Function<NormLinear> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                          const Variable& norm_bias, const Variable& weight, const Variable& bias, double eps,
                          at::ScalarType dtype) {
    const LayerNormed normed = layer_norm(x, norm_weight, norm_bias, eps);
    const at::Tensor input = normed.y.to(dtype);
    at::Tensor y = gemm(input, as_factor(weight, dtype), {.bias = bias_in(bias, dtype)});
    const bool need_norm = any_needs_gradient(x, norm_weight, norm_bias, weight);
    ctx->save_for_backward({kept_if(need_norm, x), norm_weight, norm_bias, weight,
                            kept_if(need_norm, normed.mean), kept_if(need_norm, normed.rstd),
                            kept_normed(input, weight)});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    at::Tensor dy = grads[0].contiguous();
    const at::Tensor dbias = bias_gradient(dy, ctx->needs_input_grad(4));
    const auto [d, dweight] =
        NormedProduct{t[0], t[1], t[2], t[3], t[4], t[5], t[6]}.backward(ctx, dy, /*residual=*/{});
    return {d.x, d.weight, d.bias, dweight, dbias, Variable(), Variable()};
  }
};

// Without `residual`, h W + b alone.
class LinearResidual : public torch::autograd::Function<LinearResidual> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& h, const Variable& weight,
                          const Variable& bias, const Variable& residual, const Dropout& dropout) {
    const auto dtype = h.scalar_type();
    const at::Tensor w = as_factor(weight, dtype), b = bias_in(bias, dtype);
    at::Tensor y;
    if (residual.dim() < 2) {
      y = gemm(h, w, {.bias = b});
    } else if (dropout.active()) {
      y = apply_dropout(gemm(h, w, {.bias = b}).to(residual.scalar_type()), dropout, residual, true);
    } else if (residual.scalar_type() == dtype) {
      y = gemm(h, w, {.bias = b, .addend = residual});
    } else {
      y = residual + gemm(h, w, {.bias = b});
    }
    ctx->save_for_backward({kept_if(weight.requires_grad(), h), weight});
    keep(ctx, std::pair(dropout, dtype));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor &h = t[0], &weight = t[1];
    const at::Tensor dresidual = grads[0].contiguous();
    const auto& [dropout, dtype] = kept<std::pair<Dropout, at::ScalarType>>(ctx);
    const at::Tensor dy = (dropout.active() ? apply_dropout(dresidual, dropout) : dresidual).to(dtype);
    return {ctx->needs_input_grad(0) ? input_gradient(dy, weight) : Variable(),
            weight_gradient(h, dy, weight, ctx->needs_input_grad(1)),
            bias_gradient(dy, ctx->needs_input_grad(2)), ctx->needs_input_grad(3) ? dresidual : Variable(),
            Variable()};
  }
};

class AddProduct : public torch::autograd::Function<AddProduct> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& y, const Variable& h, const Variable& weight,
                          int64_t first) {
    at::Tensor part = y.narrow(1, first, weight.size(1));
    gemm_out(part, h, as_factor(weight, h.scalar_type()), {.accumulate = true});
    ctx->mark_dirty({y});
    ctx->save_for_backward({kept_if(weight.requires_grad(), h), weight});
    keep(ctx, first);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor dy = grads[0].contiguous(), part = dy.narrow(1, kept<int64_t>(ctx), t[1].size(1));
    return {dy, ctx->needs_input_grad(1) ? input_gradient(part, t[1]) : Variable(),
            weight_gradient(t[0], part, t[1], ctx->needs_input_grad(2)), Variable()};
  }
};

class NormMlpResidual : public torch::autograd::Function<NormMlpResidual> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                          const Variable& norm_bias, const Variable& up_weight, const Variable& up_bias,
                          const Variable& down_weight, const Variable& down_bias, double eps,
                          const Dropout& dropout, at::ScalarType dtype, Gelu form) {
    LayerNormed normed = layer_norm(x, norm_weight, norm_bias, eps);
    at::Tensor pre, h, kept_input;  // (N, inner), of the norm
    {
      const at::Tensor input = std::exchange(normed.y, {}).to(dtype);
      kept_input = kept_normed(input, up_weight);
      pre = at::empty({x.size(0), outputs(up_weight)}, input.options());
      h = at::empty_like(pre);
      gemm_out(pre, input, as_factor(up_weight, dtype),
               {.bias = up_bias.to(dtype), .gelu = h, .gelu_form = form});
    }
    at::Tensor y;
    if (!dropout.active() && x.scalar_type() == dtype) {
      y = gemm(h, down_weight, {.bias = down_bias, .addend = x});
    } else {
      y = gemm(h, as_factor(down_weight, dtype), {.bias = down_bias.to(dtype)}).to(x.scalar_type());
      y = dropout.active() ? apply_dropout(y, dropout, x, true) : y.add(x);
    }
    const bool need_norm = any_needs_gradient(x, norm_weight, norm_bias, up_weight);
    ctx->save_for_backward({kept_if(need_norm, x), norm_weight, norm_bias, up_weight, down_weight,
                            kept_if(need_norm, normed.mean), kept_if(need_norm, normed.rstd), pre,
                            kept_input});
    keep(ctx, std::pair(dropout, form));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor &down_weight = t[4], &pre = t[7];
    const auto& [dropout, form] = kept<std::pair<Dropout, Gelu>>(ctx);
    const at::Tensor dresidual = grads[0].contiguous();
    const at::Tensor dy =
        (dropout.active() ? apply_dropout(dresidual, dropout) : dresidual).to(pre.scalar_type());

    auto [h, dpre, dpre_sum] = gelu_again_and_backward(pre, input_gradient(dy, down_weight), form);
    const at::Tensor ddown_weight = weight_gradient(h, dy, down_weight, ctx->needs_input_grad(5));
    const at::Tensor ddown_bias = bias_gradient(dy, ctx->needs_input_grad(6));
    h.reset();

    const bool need_up_bias = ctx->needs_input_grad(4);
    const at::Tensor dup_bias =
        need_up_bias && dpre_sum.defined() ? dpre_sum : bias_gradient(dpre, need_up_bias);
    const auto [d, dup_weight] =
        NormedProduct{t[0], t[1], t[2], t[3], t[5], t[6], t[8]}.backward(ctx, dpre, dresidual);
    return {d.x,        d.weight,   d.bias,     dup_weight, dup_bias,  ddown_weight,
            ddown_bias, Variable(), Variable(), Variable(), Variable()};
  }
};

class NormGatedResidual : public torch::autograd::Function<NormGatedResidual> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                          const Variable& norm_bias, const Variable& up_weight, const Variable& down_weight,
                          double eps, at::ScalarType dtype, Gate gate) {
    LayerNormed normed = layer_norm(x, norm_weight, norm_bias, eps);
    at::Tensor gated, kept_input;  // (N, 2 inner), of the norm
    {
      const at::Tensor input = std::exchange(normed.y, {}).to(dtype);
      kept_input = kept_normed(input, up_weight);
      gated = gemm(input, as_factor(up_weight, dtype));
    }
    const at::Tensor h = gated_unit_of(gated, gate);
    at::Tensor y;
    if (x.scalar_type() == dtype) {
      y = gemm(h, down_weight, {.addend = x});
    } else {
      y = gemm(h, as_factor(down_weight, dtype)).to(x.scalar_type()).add_(x);
    }
    const bool need_norm = any_needs_gradient(x, norm_weight, norm_bias, up_weight);
    ctx->save_for_backward({kept_if(need_norm, x), norm_weight, norm_bias, up_weight, down_weight,
                            kept_if(need_norm, normed.mean), kept_if(need_norm, normed.rstd), gated,
                            kept_input});
    keep(ctx, gate);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const at::Tensor &down_weight = t[4], &gated = t[7];
    const at::Tensor dresidual = grads[0].contiguous(), dy = dresidual.to(gated.scalar_type());
    const bool need_down = ctx->needs_input_grad(4);
    auto [h, dgated] =
        gated_unit_again_and_backward(gated, input_gradient(dy, down_weight), kept<Gate>(ctx), need_down);
    const at::Tensor ddown = weight_gradient(h, dy, down_weight, need_down);
    h.reset();
    const auto [d, dup] =
        NormedProduct{t[0], t[1], t[2], t[3], t[5], t[6], t[8]}.backward(ctx, dgated, dresidual);
    return {d.x, d.weight, d.bias, dup, ddown, Variable(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor Norm::factor() const { return is_above_one ? weight + 1 : weight; }

at::Tensor bias_of(const Norm& norm) {
  if (norm.bias.defined()) return norm.bias;
  return at::zeros({norm.has_mean ? norm.weight.size(0) : 0}, norm.weight.options());
}

Linear columns(const Linear& linear, int64_t first, int64_t count) {
  return {outputs_of(linear.weight, first, count),
          linear.bias.defined() ? linear.bias.narrow(0, first, count) : at::Tensor()};
}

at::Tensor norm_rows(const at::Tensor& x, const Norm& norm) {
  return NormRows::apply(x.contiguous(), norm.factor(), bias_of(norm), norm.eps);
}

at::Tensor norm_linear(const at::Tensor& x, const Norm& norm, const Linear& linear, at::ScalarType compute) {
  return NormLinear::apply(x, norm.factor(), bias_of(norm), linear.weight, or_none(linear.bias, x), norm.eps,
                           compute);
}

at::Tensor linear(const at::Tensor& h, const Linear& linear) {
  const at::Tensor none = at::empty({0}, h.options());
  return LinearResidual::apply(h, linear.weight, or_none(linear.bias, h), none, Dropout{});
}

at::Tensor add_product_(const at::Tensor& y, const at::Tensor& h, const at::Tensor& weight, int64_t first) {
  return AddProduct::apply(y, h, weight, first);
}

at::Tensor linear_residual(const at::Tensor& h, const Linear& linear, const at::Tensor& residual,
                           const Dropout& dropout) {
  return LinearResidual::apply(h, linear.weight, or_none(linear.bias, h), residual, dropout);
}

at::Tensor norm_mlp_residual(const at::Tensor& x, const Norm& norm, const Linear& up, const Linear& down,
                             const Dropout& dropout, at::ScalarType compute, Gelu form) {
  return NormMlpResidual::apply(x, norm.factor(), bias_of(norm), up.weight, up.bias, down.weight, down.bias,
                                norm.eps, dropout, compute, form);
}

at::Tensor norm_gated_residual(const at::Tensor& x, const Norm& norm, const Linear& up, const Linear& down,
                               at::ScalarType compute, Gate gate) {
  return NormGatedResidual::apply(x, norm.factor(), bias_of(norm), up.weight, down.weight, norm.eps, compute,
                                  gate);
}

}  // namespace pipeline::transformer
