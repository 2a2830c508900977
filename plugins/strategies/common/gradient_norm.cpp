#include "plugins/strategies/common/gradient_norm.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/rules/parallel.hpp"

namespace pipeline::strategies {
namespace {

// Element i of a chunk is added to lane i mod kLanes, so that the compiler can add lanes at once without
// changing the result. The square of a float is exact in double, so it makes no difference whether the
// processor fuses multiply and add.
constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;
constexpr int64_t kGrain = 32;  // chunks that a thread takes at a time

void add_squares(Lanes& lanes, const float* data, int64_t count) {  // count: a multiple of kLanes
  Lanes sums = lanes;
  for (int64_t i = 0; i < count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = data[i + static_cast<int64_t>(lane)];
      sums[lane] += value * value;
    }
  }
  lanes = sums;
}

double chunk_sum(const GradientRuns& runs, int64_t begin) {
  const int64_t end = begin + kChunk;
  auto run = std::partition_point(
      runs.begin(), runs.end(), [&](const GradientRun& r) { return r.offset + r.gradient.numel() <= begin; });
  Lanes lanes{};
  for (; run != runs.end() && run->offset < end; ++run) {
    const int64_t first = std::max(begin, run->offset);
    const int64_t last = std::min(end, run->offset + run->gradient.numel());
    add_squares(lanes, run->gradient.const_data_ptr<float>() + (first - run->offset), last - first);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// The elements of the arena from `begin` on, zero where there is no run.
void copy_elements(const GradientRuns& runs, int64_t begin, const at::Tensor& into) {
  into.zero_();
  const int64_t end = begin + into.numel();
  for (const GradientRun& run : runs) {
    const int64_t first = std::max(begin, run.offset);
    const int64_t last = std::min(end, run.offset + run.gradient.numel());
    if (first < last) {
      into.narrow(0, first - begin, last - first)
          .copy_(run.gradient.narrow(0, first - run.offset, last - first));
    }
  }
}

constexpr double kClipEpsilon = 1e-6;  // as torch.nn.utils.clip_grad_norm_

Verdict judge_on_host(double sum_of_squares, const pl_step_args& args) {
  const double norm = std::sqrt(sum_of_squares) * args.inverse_scale;
  const bool finite = std::isfinite(norm);
  const double clip = args.clip_norm > 0 ? std::min(1.0, args.clip_norm / (norm + kClipEpsilon)) : 1.0;
  Verdict verdict;
  verdict.grad_norm = at::scalar_tensor(norm, at::kDouble);
  verdict.finite = at::scalar_tensor(finite ? 1.0 : 0.0, at::kDouble);
  verdict.skip = !finite;
  const auto divisor = static_cast<float>(1 / (args.inverse_scale * clip));
  if (divisor != 1) verdict.scale.divisor = at::scalar_tensor(divisor, at::kFloat);
  verdict.scale.limit = args.clip_value;
  return verdict;
}

Verdict judge_on_device(const at::Tensor& sum_of_squares, const pl_step_args& args) {
  Verdict verdict;
  verdict.grad_norm = sum_of_squares.sqrt().mul_(args.inverse_scale);
  verdict.finite = verdict.grad_norm.isfinite().to(at::kDouble);
  verdict.scale.found_inf = verdict.finite.neg().add_(1).to(at::kFloat);
  verdict.scale.limit = args.clip_value;
  // Without a divisor the kernel need not write the gradients back.
  if (!(args.clip_norm > 0) && args.inverse_scale == 1) return verdict;
  at::Tensor divisor = at::full_like(verdict.grad_norm, 1 / args.inverse_scale);
  if (args.clip_norm > 0) {
    divisor =
        divisor.div_(verdict.grad_norm.add(kClipEpsilon).reciprocal_().mul_(args.clip_norm).clamp_max_(1.0));
  }
  verdict.scale.divisor = divisor.to(at::kFloat);
  return verdict;
}

}  // namespace

at::Tensor chunk_sums_by_blocks(const GradientRuns& runs, int64_t begin, int64_t end, at::Device device) {
  const int64_t count = (end - begin) / kChunk;
  const auto options = at::TensorOptions().dtype(at::kDouble).device(device);
  at::Tensor sums = at::empty({count}, options);
  const at::Tensor block = at::empty({kBlockChunks * kChunk}, options);
  for (int64_t first = 0; first < count; first += kBlockChunks) {
    copy_elements(runs, begin + first * kChunk, block);
    const int64_t size = std::min(kBlockChunks, count - first);
    sums.narrow(0, first, size)
        .copy_(at::sum(block.square_().view({kBlockChunks, kChunk}), 1).narrow(0, 0, size));
  }
  return sums;
}

at::Tensor chunk_sums(const GradientRuns& runs, int64_t begin, int64_t end, at::Device device) {
  if (!device.is_cpu()) return chunk_sums_by_blocks(runs, begin, end, device);
  const int64_t count = (end - begin) / kChunk;
  at::Tensor sums = at::empty({count}, at::kDouble);
  double* out = sums.mutable_data_ptr<double>();
  parallel_tasks((count + kGrain - 1) / kGrain, [&](int64_t task) {
    const int64_t last = std::min(count, (task + 1) * kGrain);
    for (int64_t chunk = task * kGrain; chunk < last; ++chunk)
      out[chunk] = chunk_sum(runs, begin + chunk * kChunk);
  });
  return sums;
}

at::Tensor in_order_sum(const at::Tensor& sums) {
  // Elsewhere than on the CPU a sum over a tensor of a given length has a fixed order, too.
  if (!sums.is_cpu()) return sums.sum();
  double total = 0;
  const double* data = sums.const_data_ptr<double>();
  for (int64_t i = 0; i < sums.numel(); ++i) total += data[i];
  return at::scalar_tensor(total, at::kDouble);
}

at::Tensor sum_of_squares(const GradientRuns& runs, at::Device device) {
  if (runs.empty()) return at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
  std::vector<at::Tensor> gradients;
  for (const GradientRun& run : runs) gradients.push_back(run.gradient);
  return at::stack(at::_foreach_norm(gradients, 2, at::kDouble)).square_().sum();
}

Verdict judge(const at::Tensor& sum_of_squares, const pl_step_args& args) {
  if (!(args.inverse_scale > 0) || !std::isfinite(args.inverse_scale)) {
    fail("step: inverse_scale = ", args.inverse_scale, ": must be above 0 and finite");
  }
  if (!(args.clip_norm >= 0)) fail("step: clip_norm = ", args.clip_norm, ": must be 0 (off) or more");
  if (!(args.clip_value >= 0)) fail("step: clip_value = ", args.clip_value, ": must be 0 (off) or more");
  if (args.clip_norm > 0 && args.clip_value > 0)
    fail("step: clip_norm and clip_value: one of them must be 0");
  return sum_of_squares.is_cpu() ? judge_on_host(sum_of_squares.item<double>(), args)
                                 : judge_on_device(sum_of_squares, args);
}

}  // namespace pipeline::strategies
