#include "swiglu.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "kernels/kernels.hpp"
#include "parallel.hpp"

namespace pipeline::transformer {
namespace {

constexpr int64_t kGatedGrain = 16;  // rows of a task
constexpr int64_t kGatedWork = 32;   // operations on a pair of elements

}  // namespace

at::Tensor swiglu(const at::Tensor& gated) {
  const int64_t rows = gated.size(0), inner = gated.size(1) / 2;
  if (!fast_path(gated)) return at::silu(gated.narrow(1, 0, inner)).mul_(gated.narrow(1, inner, inner));
  at::Tensor h = at::empty({rows, inner}, gated.options());
  const float* const from = gated.const_data_ptr<float>();
  float* const to = h.mutable_data_ptr<float>();
  parallel_rows(rows, kGatedGrain, kGatedWork * inner, [&](int64_t begin, int64_t end) {
    kernels().swiglu(from + begin * 2 * inner, to + begin * inner, end - begin, inner);
  });
  return h;
}

SwigluAgain swiglu_again_and_backward(const at::Tensor& gated, const at::Tensor& dh, bool need_h) {
  const int64_t rows = gated.size(0), inner = gated.size(1) / 2;
  at::Tensor dgated = at::empty_like(gated);
  if (!fast_path(gated) || !fast_path(dh)) {
    const at::Tensor gate = gated.narrow(1, 0, inner), up = gated.narrow(1, inner, inner);
    const at::Tensor open = at::sigmoid(gate), passed = gate * open;
    dgated.narrow(1, inner, inner).copy_(dh * passed);
    // d silu(g) / dg = s (1 + g (1 - s)) = s + silu (1 - s)
    dgated.narrow(1, 0, inner).copy_(dh * up * (open + passed * (1 - open)));
    return {need_h ? passed * up : at::Tensor(), dgated};
  }
  const float* const from = gated.const_data_ptr<float>();
  float *const d = dh.mutable_data_ptr<float>(), *const to = dgated.mutable_data_ptr<float>();
  parallel_rows(rows, kGatedGrain, kGatedWork * inner, [&](int64_t begin, int64_t end) {
    kernels().swiglu_backward(from + begin * 2 * inner, d + begin * inner, to + begin * 2 * inner,
                              end - begin, inner);
  });
  return {dh, dgated};
}

}  // namespace pipeline::transformer
