#include "gelu.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>

#include "cuda/kernels.hpp"
#include "fast_path.hpp"
#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements of a task
constexpr int64_t kElementWork = 32;
constexpr double kQuickSlope = 1.702;

at::Tensor gradient_by_torch(const at::Tensor& x, const at::Tensor& dy, Gelu form) {
  if (form != Gelu::kQuick) return at::gelu_backward(dy, x, torch_name(form));
  const at::Tensor s = at::sigmoid(x * kQuickSlope);
  return dy * (s + kQuickSlope * x * s * (1 - s));
}

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, Gelu form) {
    ctx->save_for_backward({x});
    keep(ctx, form);
    at::Tensor y = at::empty_like(x);
    if (!fast_path(x)) {
      gelu_by_torch(y, x, form);
      return y;
    }
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel::rows(x.numel(), kGrain, kElementWork, [&](int64_t begin, int64_t end) {
      kernels().gelu(form, from + begin, to + begin, end - begin);
    });
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = ctx->get_saved_variables()[0];
    const Gelu form = kept<Gelu>(ctx);
    if (!fast_path(x)) return {gradient_by_torch(x, grads[0], form), Variable()};
    // The gradient may be somebody else's, too.
    const at::Tensor dy = grads[0].clone(at::MemoryFormat::Contiguous);
    return {gelu_again_and_backward(x, dy, form).dx, Variable()};
  }
};

}  // namespace

at::Tensor gelu(const at::Tensor& x, Gelu form) { return GeluFunction::apply(x, form); }

void gelu_by_torch(at::Tensor& y, const at::Tensor& x, Gelu form) {
  if (form == Gelu::kQuick) {
    at::sigmoid_out(y, x * kQuickSlope).mul_(x);
  } else {
    at::gelu_out(y, x, torch_name(form));
  }
}

GeluAgain gelu_again_and_backward(const at::Tensor& x, const at::Tensor& dy, Gelu form) {
  if (cuda::has_row_kernels_for(x)) {
    at::Tensor y = at::empty_like(x), d = dy;
    at::Tensor sum = cuda::gelu_backward(x, d, y, form);
    return {y, d, sum};
  }
  if (!fast_path(x) || !fast_path(dy)) {
    at::Tensor y = at::empty_like(x);
    gelu_by_torch(y, x, form);
    return {y, gradient_by_torch(x, dy, form)};
  }
  at::Tensor y = at::empty_like(x);
  const float* const from = x.const_data_ptr<float>();
  float *const to = y.mutable_data_ptr<float>(), *const d = dy.mutable_data_ptr<float>();
  parallel::rows(x.numel(), kGrain, kElementWork, [&](int64_t begin, int64_t end) {
    kernels().gelu_backward(form, from + begin, to + begin, d + begin, end - begin);
  });
  return {y, dy};
}

}  // namespace pipeline::transformer
