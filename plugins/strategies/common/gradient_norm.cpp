#include "plugins/strategies/common/gradient_norm.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "plugins/parallel/parallel.hpp"
#include "plugins/strategies/common/layout.hpp"

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

bool has_turn(int64_t loss, const pl_step_args& args) { return (args.idle_losses >> loss & 1) == 0; }

std::optional<at::Tensor> divisor_on_host(double squares, const pl_step_args& args) {
  const double norm = std::sqrt(squares) * args.inverse_scale;
  const double clip = args.clip_norm > 0 ? std::min(1.0, args.clip_norm / (norm + kClipEpsilon)) : 1.0;
  const auto divisor = static_cast<float>(1 / (args.inverse_scale * clip));
  return divisor != 1 ? std::optional(at::scalar_tensor(divisor, at::kFloat)) : std::nullopt;
}

std::optional<at::Tensor> divisor_on_device(const at::Tensor& squares, const pl_step_args& args) {
  // Without a divisor the kernel need not write the gradients back.
  if (!(args.clip_norm > 0) && args.inverse_scale == 1) return std::nullopt;
  at::Tensor divisor = at::full_like(squares, 1 / args.inverse_scale);
  if (args.clip_norm > 0) {
    const at::Tensor norm = squares.sqrt().mul_(args.inverse_scale);
    divisor.div_(norm.add_(kClipEpsilon).reciprocal_().mul_(args.clip_norm).clamp_max_(1.0));
  }
  return divisor.to(at::kFloat);
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
  parallel::tasks((count + kGrain - 1) / kGrain, [&](int64_t task) {
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

at::Tensor squares_by_loss(const at::Tensor& sums, const Layout& layout) {
  if (layout.losses() == 1) return in_order_sum(sums).view({1});
  std::vector<at::Tensor> by_loss;
  for (uint32_t loss = 0; loss < layout.losses(); ++loss) {
    std::vector<at::Tensor> its{sums.narrow(0, 0, 0)};
    for (const Group& group : layout.groups())
      if (group.loss == loss)
        its.push_back(sums.narrow(0, group.begin / kChunk, (group.end - group.begin) / kChunk));
    by_loss.push_back(in_order_sum(at::cat(its)));
  }
  return at::stack(by_loss);
}

at::Tensor sum_of_squares(const GradientRuns& runs, at::Device device) {
  if (runs.empty()) return at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
  std::vector<at::Tensor> gradients;
  for (const GradientRun& run : runs) gradients.push_back(run.gradient);
  return at::stack(at::_foreach_norm(gradients, 2, at::kDouble)).square_().sum();
}

Verdict judge(const at::Tensor& squares, const pl_step_args& args) {
  if (!(args.inverse_scale > 0) || !std::isfinite(args.inverse_scale)) {
    fail("step: inverse_scale = ", args.inverse_scale, ": must be above 0 and finite");
  }
  if (!(args.clip_norm >= 0)) fail("step: clip_norm = ", args.clip_norm, ": must be 0 (off) or more");
  if (!(args.clip_value >= 0)) fail("step: clip_value = ", args.clip_value, ": must be 0 (off) or more");
  if (args.clip_norm > 0 && args.clip_value > 0)
    fail("step: clip_norm and clip_value: one of them must be 0");
  Verdict verdict;
  at::Tensor sum;
  for (int64_t loss = 0; loss < squares.numel(); ++loss) {
    verdict.scales.emplace_back();
    if (!has_turn(loss, args)) continue;
    const at::Tensor its = squares[loss];
    sum = sum.defined() ? sum.add(its) : its;
    verdict.scales.back() = {.divisor = its.is_cpu() ? divisor_on_host(*its.const_data_ptr<double>(), args)
                                                     : divisor_on_device(its, args),
                             .limit = args.clip_value,
                             .found_inf = {}};
  }
  if (!sum.defined())
    fail("step: idle_losses = ", args.idle_losses, ": one of ", squares.numel(), " losses must have a turn");
  verdict.grad_norm = sum.sqrt().mul_(args.inverse_scale);
  verdict.finite = verdict.grad_norm.isfinite().to(at::kDouble);
  if (squares.is_cpu()) {
    verdict.skip = verdict.finite.item<double>() == 0;
    return verdict;
  }
  const at::Tensor found_inf = verdict.finite.neg().add_(1).to(at::kFloat);
  for (std::optional<GradientScale>& scale : verdict.scales)
    if (scale) scale->found_inf = found_inf;
  return verdict;
}

}  // namespace pipeline::strategies
