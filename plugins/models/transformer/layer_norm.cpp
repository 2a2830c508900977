#include "layer_norm.hpp"

#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "cuda/kernels.hpp"
#include "fast_path.hpp"
#include "gemm.hpp"
#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

constexpr int64_t kRowGrain = 64;
constexpr int64_t kColumnGrain = 64;

const float* in(const at::Tensor& x) { return x.const_data_ptr<float>(); }
float* out(at::Tensor& x) { return x.mutable_data_ptr<float>(); }
// Null for the mean and the bias that RMS norm does not have.
const float* in_if_any(const at::Tensor& x, int64_t first = 0) {
  return x.numel() > 0 ? in(x) + first : nullptr;
}
float* out_if_any(at::Tensor& x, int64_t first = 0) { return x.numel() > 0 ? out(x) + first : nullptr; }

bool narrow_on_cpu(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf);
}

// With a float32 weight LibTorch gives mean and rstd in float32 on the CPU, too; CUDA always does, and takes
// a weight of the type of x alone.
at::Tensor widened_for(const at::Tensor& x, const at::Tensor& parameter) {
  return narrow_on_cpu(x) ? parameter.to(at::kFloat) : parameter;
}

bool is_rms(const at::Tensor& bias) { return bias.numel() == 0; }

// Computed in float32 as in transformers (on a device LibTorch's fused kernel rounds once): the weight
// multiplies what was rounded to the type of x.
at::Tensor rms_normed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd) {
  return (x.to(rstd.scalar_type()) * rstd).to(x.scalar_type()).mul_(weight);
}

LayerNormed rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (x.is_cuda()) {
    auto [y, rstd] = at::_fused_rms_norm(x, {x.size(1)}, weight, eps);
    return {y, at::empty({0}, rstd.options()), rstd};
  }
  const at::Tensor rstd = x.to(wide(x.scalar_type())).square().mean(1, true).add_(eps).rsqrt_();
  return {rms_normed(x, weight, rstd), at::empty({0}, rstd.options()), rstd};
}

// With h = x rstd and g = dy weight: dx = rstd (g - h mean(g h)), dweight = sum of dy h over rows.
LayerNormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& rstd, const at::Tensor& residual, bool need_x,
                                     bool need_weight) {
  LayerNormGradients result;
  if (x.is_cuda()) {
    std::tie(result.x, result.weight) = at::_fused_rms_norm_backward(dy.to(x.scalar_type()), x, {x.size(1)},
                                                                     rstd, weight, {need_x, need_weight});
    if (need_x && residual.defined()) result.x.add_(residual);
    return result;
  }
  const at::ScalarType type = rstd.scalar_type();
  const at::Tensor h = x.to(type) * rstd, d = dy.to(type);
  if (need_weight) result.weight = (d * h).sum(0);
  if (!need_x) return result;
  const at::Tensor g = d * weight.to(type);
  result.x = g.sub(h * (g * h).mean(1, true)).mul_(rstd).to(x.scalar_type());
  if (residual.defined()) result.x.add_(residual);
  return result;
}

}  // namespace

LayerNormed layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  if (!fast_path(x)) {
    if (is_rms(bias)) return rms_norm(x, weight, eps);
    auto [y, mean, rstd] =
        at::native_layer_norm(x, {x.size(1)}, widened_for(x, weight), widened_for(x, bias), eps);
    return {y, mean, rstd};
  }
  const int64_t rows = x.size(0), columns = x.size(1);
  LayerNormed result{at::empty_like(x), at::empty({is_rms(bias) ? 0 : rows}, x.options()),
                     at::empty({rows}, x.options())};
  parallel::rows(rows, kRowGrain, 8 * columns, [&](int64_t begin, int64_t end) {
    kernels().layer_norm(in(x) + begin * columns, in(weight), in_if_any(bias),
                         out(result.y) + begin * columns, out_if_any(result.mean, begin),
                         out(result.rstd) + begin, end - begin, columns, static_cast<float>(eps));
  });
  return result;
}

at::Tensor layer_norm_again(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& rstd) {
  if (!fast_path(x))
    return is_rms(bias) ? rms_normed(x, weight, rstd) : x.sub(mean).mul_(rstd).mul_(weight).add_(bias);
  const int64_t rows = x.size(0), columns = x.size(1);
  at::Tensor y = at::empty_like(x);
  parallel::rows(rows, kRowGrain, 8 * columns, [&](int64_t begin, int64_t end) {
    kernels().layer_norm_again(in(x) + begin * columns, in(weight), in_if_any(bias), in_if_any(mean, begin),
                               in(rstd) + begin, out(y) + begin * columns, end - begin, columns);
  });
  return y;
}

LayerNormGradients layer_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& rstd,
                                       const at::Tensor& residual, bool need_x, bool need_parameters) {
  if (cuda::has_norm_kernels_for(x)) {
    const at::Tensor dx = need_x ? at::empty_like(x) : at::Tensor();
    const auto [dweight, dbias] = cuda::layer_norm_backward(dy.to(x.scalar_type()).contiguous(), x, weight,
                                                            mean, rstd, residual, dx, need_parameters);
    return {dx, dweight, is_rms(bias) ? at::Tensor() : dbias};
  }
  const bool fast = fast_path(x) && fast_path(dy);
  if (is_rms(bias) && !fast)
    return rms_norm_backward(dy, x, weight, rstd.view({-1, 1}), residual, need_x, need_parameters);
  LayerNormGradients result;
  // LibTorch's kernel adds up the parameters' gradients in bfloat16, whatever their type.
  if (narrow_on_cpu(x)) {
    const auto widened = [](const at::Tensor& t) { return t.defined() ? t.to(at::kFloat) : t; };
    result = layer_norm_backward(widened(dy), widened(x), widened(weight), widened(bias), widened(mean),
                                 widened(rstd), widened(residual), need_x, need_parameters);
    if (need_x) result.x = result.x.to(x.scalar_type());
    return result;
  }
  if (!fast) {
    auto [dx, dweight, dbias] =
        at::native_layer_norm_backward(dy.to(x.scalar_type()), x, {x.size(1)}, mean, rstd, weight, bias,
                                       {need_x, need_parameters, need_parameters});
    if (need_x && residual.defined()) dx.add_(residual);
    return {dx, dweight, dbias};
  }
  const int64_t rows = x.size(0), columns = x.size(1);
  if (need_parameters) {
    result.weight = at::empty_like(weight);
    result.bias = at::empty_like(bias);  // for RMS norm without elements, as the bias
    parallel::rows(columns, kColumnGrain, 8 * rows, [&](int64_t begin, int64_t end) {
      kernels().layer_norm_backward_parameters(in(dy), in(x), in_if_any(mean), in(rstd), out(result.weight),
                                               out_if_any(result.bias), rows, columns, begin, end);
    });
  }
  if (need_x) {
    result.x = at::empty_like(x);
    parallel::rows(rows, kRowGrain, 8 * columns, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * columns;
      kernels().layer_norm_backward(in(dy) + at, in(x) + at, in(weight), in_if_any(mean, begin),
                                    in(rstd) + begin, residual.defined() ? in(residual) + at : nullptr,
                                    out(result.x) + at, end - begin, columns);
    });
  }
  return result;
}

}  // namespace pipeline::transformer
