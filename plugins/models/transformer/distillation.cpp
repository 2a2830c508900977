#include "distillation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logaddexp.h>

#include <cmath>

namespace pipeline::transformer {

DivergenceOfRows divergence(const at::Tensor& logits, const at::Tensor& of_teacher, const Divergence& kind,
                            bool gradient) {
  const at::NoGradGuard no_grad;
  const double beta = kind.beta;
  const auto log_p = [&](const at::Tensor& of) {
    return at::log_softmax(of.to(at::kFloat).div(kind.temperature), 1);
  };
  const at::Tensor log_s = log_p(logits), log_t = log_p(of_teacher);
  DivergenceOfRows rows;
  if (beta == 0) {
    const at::Tensor t = log_t.exp();
    rows.losses = (t * (log_t - log_s)).sum(1);
    if (gradient) rows.gradient = log_s.exp().sub_(t);
  } else {
    const at::Tensor log_m =
        beta == 1 ? log_t : at::logaddexp(log_t + std::log(beta), log_s + std::log1p(-beta));
    const at::Tensor s = log_s.exp(), apart = log_s - log_m;
    rows.losses = (s * apart).sum(1);
    // By s the gradient of the divergence is (1 - beta) log(s / m), or log(s / t), and a constant.
    if (gradient) rows.gradient = s * (apart - rows.losses.unsqueeze(1));
    if (beta < 1) {
      rows.losses = rows.losses * (1 - beta) + (log_t.exp() * (log_t - log_m)).sum(1) * beta;
      if (gradient) rows.gradient.mul_(1 - beta);
    }
  }
  if (gradient) rows.gradient.div_(kind.temperature);
  return rows;
}

}  // namespace pipeline::transformer
