#include "rotary.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>

#include "cuda/kernels.hpp"
#include "fast_path.hpp"
#include "kept.hpp"
#include "packed_batch.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

constexpr int64_t kRotaryGrain = 64;

// Any device and dtype; computed in fp32, as transformers does.
void turn_by_torch(at::Tensor& x, int64_t width, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  const int64_t half = cos.size(1), rows = x.size(0);
  const at::Tensor heads = x.narrow(1, 0, width).view({rows, width / (2 * half), 2, half});
  at::Tensor first = heads.select(2, 0), second = heads.select(2, 1);
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor a = first.to(type), b = second.to(type);  // copies only in another dtype
  const at::Tensor c = cos.to(type).unsqueeze(1), s = sin.to(type).unsqueeze(1) * sign;
  const at::Tensor turned = a * c - b * s;
  second.copy_(b * c + a * s);
  first.copy_(turned);
}

cuda::Heads turned_heads(int64_t width, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t head = 2 * cos.size(1);
  return {.width = head, .queries = 0, .turned = width / head, .cos = cos, .sin = sin};
}

// sign: 1, or -1 to turn back.
void turn(at::Tensor& x, int64_t width, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  if (const cuda::Heads heads = turned_heads(width, cos, sin); cuda::has_head_kernels_for(x, heads))
    return cuda::turn_heads(x, x, heads, sign < 0);
  if (!fast_path(x)) return turn_by_torch(x, width, cos, sin, sign);
  const int64_t half = cos.size(1), stride = x.size(1);
  float* const data = x.mutable_data_ptr<float>();
  const float *const c = cos.const_data_ptr<float>(), *const s = sin.const_data_ptr<float>();
  parallel::rows(x.size(0), kRotaryGrain, 3 * width, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float *const cos_row = c + n * half, *const sin_row = s + n * half;
      for (float* head = data + n * stride; head < data + n * stride + width; head += 2 * half) {
        for (int64_t i = 0; i < half; ++i) {
          const float a = head[i], b = head[i + half], sine = sign * sin_row[i];
          head[i] = a * cos_row[i] - b * sine;
          head[i + half] = b * cos_row[i] + a * sine;
        }
      }
    }
  });
}

class Rotate : public torch::autograd::Function<Rotate> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, int64_t width, const at::Tensor& cos,
                          const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    keep(ctx, width);
    ctx->mark_dirty({x});
    at::Tensor turned = x;
    turn(turned, width, cos, sin, 1);
    return turned;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const int64_t width = kept<int64_t>(ctx);
    const at::Tensor dy = grads[0].contiguous();
    const cuda::Heads heads = turned_heads(width, saved[0], saved[1]);
    at::Tensor dx;  // a copy: the gradient may be somebody else's, too
    if (cuda::has_head_kernels_for(dy, heads)) {
      dx = at::empty_like(dy);
      cuda::turn_heads(dy, dx, heads, /*back=*/true);
    } else {
      dx = dy.clone();
      turn(dx, width, saved[0], saved[1], -1);
    }
    return {dx, Variable(), Variable(), Variable()};
  }
};

}  // namespace

// The frequencies as transformers computes them, to the bit.
at::Tensor rotary_frequencies(int64_t head_width, double base) {
  TORCH_CHECK(head_width > 0 && head_width % 2 == 0,
              "rotary positions need heads of an even number of channels, not ", head_width);
  const at::Tensor exponents = at::arange(0, head_width, 2, at::kFloat) / static_cast<double>(head_width);
  return at::pow(base, exponents).reciprocal();
}

Rotation rotation(const at::Tensor& positions, const at::Tensor& frequencies, double magnitude) {
  const at::NoGradGuard no_grad;
  const at::Tensor angles =
      positions.to(at::kFloat).unsqueeze(1) * to_device(frequencies, positions.device());
  if (magnitude == 1) return {angles.cos(), angles.sin()};
  return {angles.cos().mul_(magnitude), angles.sin().mul_(magnitude)};
}

at::Tensor rotate_(const at::Tensor& x, int64_t width, const Rotation& by) {
  const int64_t head = 2 * by.cos.size(1);
  TORCH_CHECK(x.dim() == 2 && width <= x.size(1) && width % head == 0 && by.cos.size(0) == x.size(0),
              "rotary: ", width, " columns of ", x.sizes(), " by ", by.cos.sizes(), " angles");
  return Rotate::apply(x, width, by.cos, by.sin);
}

}  // namespace pipeline::transformer
