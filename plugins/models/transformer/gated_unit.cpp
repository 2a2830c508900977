#include "gated_unit.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "cuda/kernels.hpp"
#include "fast_path.hpp"
#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

constexpr int64_t kGatedGrain = 16;  // rows of a task
constexpr int64_t kGatedWork = 32;   // operations on a pair of elements

class GatedUnit : public torch::autograd::Function<GatedUnit> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& gated, Gate gate) {
    ctx->save_for_backward({gated});
    keep(ctx, gate);
    return gated_unit_of(gated, gate);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    // A copy where it is overwritten, as the gradient may be somebody else's, too.
    const at::Tensor dh = grads[0].is_cpu() ? grads[0].clone(at::MemoryFormat::Contiguous) : grads[0];
    const at::Tensor gated = ctx->get_saved_variables()[0];
    return {gated_unit_again_and_backward(gated, dh, kept<Gate>(ctx), false).dgated, Variable()};
  }
};

const char* gelu_form(Gate gate) { return gate == Gate::kGelu ? "tanh" : "none"; }

at::Tensor value_by_torch(const at::Tensor& g, Gate gate) {
  return gate == Gate::kSilu ? at::silu(g) : at::gelu(g, gelu_form(gate));
}

// d gate(g), from that of gate(g).
at::Tensor gradient_by_torch(const at::Tensor& d, const at::Tensor& g, Gate gate) {
  if (gate != Gate::kSilu) return at::gelu_backward(d, g, gelu_form(gate));
  const at::Tensor open = at::sigmoid(g);
  return d * (open + g * open * (1 - open));
}

}  // namespace

at::Tensor gated_unit(const at::Tensor& gated, Gate gate) { return GatedUnit::apply(gated, gate); }

at::Tensor gated_unit_of(const at::Tensor& gated, Gate gate) {
  const int64_t rows = gated.size(0), inner = gated.size(1) / 2;
  if (cuda::has_gated_kernels_for(gated)) return cuda::gated_unit(gated, gate);
  if (!fast_path(gated))
    return value_by_torch(gated.narrow(1, 0, inner), gate).mul_(gated.narrow(1, inner, inner));
  at::Tensor h = at::empty({rows, inner}, gated.options());
  const float* const from = gated.const_data_ptr<float>();
  float* const to = h.mutable_data_ptr<float>();
  parallel::rows(rows, kGatedGrain, kGatedWork * inner, [&](int64_t begin, int64_t end) {
    kernels().gated_unit(gate, from + begin * 2 * inner, to + begin * inner, end - begin, inner);
  });
  return h;
}

GatedAgain gated_unit_again_and_backward(const at::Tensor& gated, const at::Tensor& dh, Gate gate,
                                         bool need_h) {
  const int64_t rows = gated.size(0), inner = gated.size(1) / 2;
  at::Tensor dgated = at::empty_like(gated);
  if (cuda::has_gated_kernels_for(gated)) {
    at::Tensor h = need_h ? at::empty({rows, inner}, gated.options()) : at::Tensor();
    cuda::gated_unit_backward(gated, dh.to(gated.scalar_type()).contiguous(), dgated, h, gate);
    return {h, dgated};
  }
  if (!fast_path(gated) || !fast_path(dh)) {
    const at::Tensor g = gated.narrow(1, 0, inner), up = gated.narrow(1, inner, inner);
    const at::Tensor passed = value_by_torch(g, gate);
    dgated.narrow(1, inner, inner).copy_(dh * passed);
    dgated.narrow(1, 0, inner).copy_(gradient_by_torch(dh * up, g, gate));
    return {need_h ? passed * up : at::Tensor(), dgated};
  }
  const float* const from = gated.const_data_ptr<float>();
  float *const d = dh.mutable_data_ptr<float>(), *const to = dgated.mutable_data_ptr<float>();
  parallel::rows(rows, kGatedGrain, kGatedWork * inner, [&](int64_t begin, int64_t end) {
    kernels().gated_unit_backward(gate, from + begin * 2 * inner, d + begin * inner, to + begin * 2 * inner,
                                  end - begin, inner);
  });
  return {dh, dgated};
}

}  // namespace pipeline::transformer
