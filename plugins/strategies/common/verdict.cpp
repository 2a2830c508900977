#include "plugins/strategies/common/verdict.hpp"

#include <algorithm>
#include <cmath>

#include <pipeline/error.hpp>

namespace pipeline::strategies {
namespace {

constexpr double kClipEpsilon = 1e-6;  // as torch.nn.utils.clip_grad_norm_

Verdict judge_on_host(double sum_of_squares, const pl_step_args& args) {
  const double norm = std::sqrt(sum_of_squares) * args.inverse_scale;
  const bool finite = std::isfinite(norm);
  const double clip = args.clip_norm > 0 ? std::min(1.0, args.clip_norm / (norm + kClipEpsilon)) : 1.0;
  Verdict verdict;
  verdict.grad_norm = at::scalar_tensor(norm, at::kDouble);
  verdict.finite = at::scalar_tensor(finite ? 1.0 : 0.0, at::kDouble);
  verdict.skip = !finite;
  // Without a divisor the kernel need not write the gradients back.
  const auto divisor = static_cast<float>(1 / (args.inverse_scale * clip));
  if (divisor != 1) verdict.scale.divisor = at::scalar_tensor(divisor, at::kFloat);
  return verdict;
}

Verdict judge_on_device(const at::Tensor& sum_of_squares, const pl_step_args& args) {
  Verdict verdict;
  verdict.grad_norm = sum_of_squares.sqrt().mul_(args.inverse_scale);
  verdict.finite = verdict.grad_norm.isfinite().to(at::kDouble);
  verdict.scale.found_inf = verdict.finite.neg().add_(1).to(at::kFloat);
  at::Tensor divisor = at::full_like(verdict.grad_norm, 1 / args.inverse_scale);
  if (args.clip_norm > 0) {
    divisor =
        divisor.div_(verdict.grad_norm.add(kClipEpsilon).reciprocal_().mul_(args.clip_norm).clamp_max_(1.0));
  }
  verdict.scale.divisor = divisor.to(at::kFloat);
  return verdict;
}

}  // namespace

Verdict judge(const at::Tensor& sum_of_squares, const pl_step_args& args) {
  if (!(args.inverse_scale > 0) || !std::isfinite(args.inverse_scale)) {
    fail("step: inverse_scale = ", args.inverse_scale, ": must be above 0 and finite");
  }
  if (!(args.clip_norm >= 0)) fail("step: clip_norm = ", args.clip_norm, ": must be 0 (off) or more");
  return sum_of_squares.is_cpu() ? judge_on_host(sum_of_squares.item<double>(), args)
                                 : judge_on_device(sum_of_squares, args);
}

}  // namespace pipeline::strategies
