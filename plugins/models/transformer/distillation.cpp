#include "distillation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

namespace pipeline::transformer {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // a log-probability

at::Tensor log_probabilities(const at::Tensor& logits, double temperature) {
  return at::log_softmax(logits.to(at::kFloat).div(temperature), 1);
}

// Of log-probabilities (N, M) of the same events; the gradient is by log_s.
DivergenceOfRows divergence_of(const at::Tensor& log_s, const at::Tensor& log_t, double beta, bool gradient) {
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
  return rows;
}

}  // namespace

DivergenceOfRows divergence(const at::Tensor& logits, const at::Tensor& of_teacher, const Divergence& kind,
                            bool gradient) {
  const at::NoGradGuard no_grad;
  DivergenceOfRows rows = divergence_of(log_probabilities(logits, kind.temperature),
                                        log_probabilities(of_teacher, kind.temperature), kind.beta, gradient);
  if (gradient) rows.gradient.div_(kind.temperature);
  return rows;
}

LikeliestTokens likeliest_tokens(const at::Tensor& logits, int64_t k, double temperature) {
  const at::NoGradGuard no_grad;
  const at::Tensor all = log_probabilities(logits, temperature);
  const auto [log_p, ids] = all.topk(k, 1);
  if (k == all.size(1)) return {ids, log_p};
  return {ids, at::cat({log_p, at::logsumexp(all.scatter(1, ids, kNever), 1, /*keepdim=*/true)}, 1)};
}

DivergenceOfRows divergence(const at::Tensor& logits, const LikeliestTokens& of_teacher,
                            const Divergence& kind, bool gradient) {
  const at::NoGradGuard no_grad;
  const auto& [ids, log_t] = of_teacher;
  const int64_t k = ids.size(1);
  const bool has_others = log_t.size(1) > k;
  const at::Tensor all = log_probabilities(logits, kind.temperature), others = all.scatter(1, ids, kNever),
                   log_s = all.gather(1, ids);
  at::Tensor of_others;
  if (has_others) of_others = at::logsumexp(others, 1, /*keepdim=*/true);
  DivergenceOfRows rows =
      divergence_of(has_others ? at::cat({log_s, of_others}, 1) : log_s, log_t, kind.beta, gradient);
  if (!gradient) return rows;
  // The gradient of the others together is shared among them by their probabilities.
  const at::Tensor shared =
      has_others ? (others - of_others).exp_().mul_(rows.gradient.narrow(1, k, 1)) : at::zeros_like(all);
  rows.gradient = shared.scatter_(1, ids, rows.gradient.narrow(1, 0, k)).div_(kind.temperature);
  return rows;
}

}  // namespace pipeline::transformer
