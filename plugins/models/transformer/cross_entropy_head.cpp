#include "cross_entropy_head.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "cuda/kernels.hpp"
#include "fast_path.hpp"
#include "gemm.hpp"
#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "layer_norm.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

// What the logits' gradients are multiplied by while they are in float16, where most probabilities of a large
// vocabulary are too small to be exact. Not on the CPU, whose products are rounded before they are scaled.
double range_scale(const at::Tensor& logits) {
  return logits.scalar_type() == at::kHalf && !logits.is_cpu() ? 1024 : 1;
}

// Any device and dtype. Losses of the rows in double, added in order; with `gradient`, logits become their
// gradient * range_scale(). `row_losses`, where they are wanted, receive the cross entropies.
at::Tensor cross_entropy_by_torch(at::Tensor logits, const at::Tensor& targets, bool gradient,
                                  const LossTerms& terms, const at::Tensor& row_losses) {
  const at::Tensor log_p = at::log_softmax(logits, 1, wide(logits.scalar_type()));
  const at::Tensor index = targets.unsqueeze(1), of_target = log_p.gather(1, index).squeeze(1);
  if (row_losses.defined()) row_losses.copy_(of_target.neg());
  at::Tensor loss = total(of_target, at::kDouble).neg(), log_sum;
  if (terms.any()) {
    log_sum = logits.gather(1, index).squeeze(1).to(log_p.scalar_type()).sub_(of_target);
    at::Tensor added = log_sum.square().mul_(terms.z_loss);
    if (terms.label_smoothing > 0) added.add_(of_target - log_p.mean(1), terms.label_smoothing);
    loss.add_(total(added, at::kDouble));
  }
  if (gradient) {
    const double by = range_scale(logits);
    at::Tensor at_target = of_target.expm1();
    if (terms.any()) {
      const at::Tensor of_z = log_sum.mul(2 * terms.z_loss);
      const double everywhere = terms.label_smoothing / static_cast<double>(logits.size(1));
      at_target.addcmul_(of_target.exp(), of_z).add_(terms.label_smoothing - everywhere);
      logits.copy_(log_p.exp().mul_(of_z.add(1).unsqueeze(1)).sub_(everywhere).mul_(by));
    } else {
      at::exp_out(logits, by == 1 ? log_p : log_p.add(std::log(by)));
    }
    // One element of each row: by rows, deterministic algorithms would copy all logits.
    const int64_t rows = logits.size(0), stride = logits.stride(0);
    const at::Tensor place = at::arange(rows, targets.options()).mul_(stride).add_(targets);
    logits.as_strided({(rows - 1) * stride + logits.size(1)}, {1})
        .index_put_({place}, at_target.mul_(by).to(logits.scalar_type()));
  }
  return loss;
}

// Rows that are in float32 at a time: as many as stay in a processor's cache, or on a device as fill this
// many elements.
constexpr int64_t kRowsInFloat = 16, kElementsInFloat = int64_t{1} << 26;

// The loss by our own kernel; with `gradient`, logits become their gradient * options.scale.
at::Tensor cross_entropy_by_kernel(at::Tensor& logits, const at::Tensor& targets, bool gradient,
                                   const HeadOptions& options, const at::Tensor& row_losses) {
  const int64_t rows = logits.size(0), columns = logits.size(1);
  float* const data = logits.mutable_data_ptr<float>();
  const int64_t* const target = targets.const_data_ptr<int64_t>();
  std::vector<RowLoss> losses(static_cast<size_t>(rows));
  parallel::tasks(rows, 32 * rows * columns, [&](int64_t n) {
    losses[static_cast<size_t>(n)] = kernels().cross_entropy_row(
        data + n * columns, columns, target[n], gradient, static_cast<float>(options.scale), options.terms);
  });
  if (row_losses.defined())
    std::ranges::transform(losses, row_losses.mutable_data_ptr<float>(), &RowLoss::cross_entropy);
  double sum = 0;
  for (const RowLoss& loss : losses) sum += static_cast<double>(loss.cross_entropy) + loss.added;
  return at::scalar_tensor(sum, at::kDouble);
}

// What the products with the logits' gradient still multiply by: our kernel for the CPU has applied the
// scale. LibTorch's operations would need a pass over all logits for it.
double factor_left(const at::Tensor& logits, double scale) {
  return fast_path(logits) ? 1 : scale / range_scale(logits);
}

// The loss; with `gradient`, logits become their gradient * options.scale / factor_left().
at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, bool gradient,
                         const HeadOptions& options, const at::Tensor& row_losses) {
  if (cuda::has_kernels_for(logits)) {
    at::Tensor added;
    if (options.terms.any()) added = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    const at::Tensor losses =
        cuda::cross_entropy(logits, targets, gradient, range_scale(logits), options.terms, added);
    if (row_losses.defined()) row_losses.copy_(losses);
    return (added.defined() ? losses + added : losses).sum(at::kDouble);
  }
  if (!fast_path(logits)) {
    const int64_t count = logits.size(0),
                  most = logits.is_cpu() ? kRowsInFloat
                                         : std::max<int64_t>(1, kElementsInFloat / logits.size(1));
    at::Tensor loss = at::zeros({}, logits.options().dtype(at::kDouble));
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t size = std::min(most, count - begin);
      loss.add_(cross_entropy_by_torch(
          logits.narrow(0, begin, size), targets.narrow(0, begin, size), gradient, options.terms,
          row_losses.defined() ? row_losses.narrow(0, begin, size) : at::Tensor()));
    }
    return loss;
  }
  return cross_entropy_by_kernel(logits, targets, gradient, options, row_losses);
}

// cross_entropy() mixed with the divergence from the teacher; `begin`: the first of the head's rows.
at::Tensor mixed_loss(at::Tensor& logits, const at::Tensor& targets, bool gradient,
                      const HeadOptions& options, const at::Tensor& row_losses, int64_t begin) {
  const Distillation& teacher = options.teacher;
  const int64_t count = logits.size(0);
  const DivergenceOfRows apart = teacher.of(logits, begin, gradient);
  if (teacher.row_losses.defined()) teacher.row_losses.narrow(0, begin, count).copy_(apart.losses);
  const at::Tensor loss = cross_entropy(logits, targets, gradient, options, row_losses);
  if (gradient) {
    const double by = fast_path(logits) ? options.scale : range_scale(logits);
    logits.mul_(1 - teacher.weight).add_(apart.gradient, teacher.weight * by);
  }
  return loss * (1 - teacher.weight) + total(apart.losses, at::kDouble) * teacher.weight;
}

// A chunk is split evenly, so that the last one is not a sliver.
int64_t even_chunk(int64_t rows, int64_t most) {
  const int64_t chunks = (rows + most - 1) / most;
  return chunks == 0 ? 1 : (rows + chunks - 1) / chunks;
}

// Rows of logits at a time: as many as stay in a processor's cache, or on a device, whose products want many
// rows, as fill this many bytes.
constexpr int64_t kRowsOnCpu = 512;
constexpr int64_t kBytesOnDevice = int64_t{1} << 30;
int64_t default_chunk(const at::Tensor& h, int64_t vocabulary, const HeadOptions& options) {
  const int64_t as_many = options.teacher.is_wanted() ? 8 : 1;  // matrices of this size at a time
  if (h.is_cpu()) return kRowsOnCpu / as_many;
  return std::max<int64_t>(1, kBytesOnDevice / (vocabulary * h.element_size() * as_many));
}

// How many columns the logits have in the products. On a device products with an odd number of columns are
// slow (GPT-2's 50,257: 97 TFLOP/s on an H100 where 50,304 have 715), wherever rows begin. So there are
// columns of zeros behind the vocabulary: as logits, and as their gradients.
int64_t padded_columns(const at::Tensor& h, int64_t vocabulary) {
  constexpr int64_t kMultiple = 64;
  return h.is_cpu() ? vocabulary : (vocabulary + kMultiple - 1) / kMultiple * kMultiple;
}

// x with so many rows, the last of them zeros.
at::Tensor padded_rows(const at::Tensor& x, int64_t rows) {
  const int64_t count = x.size(0);
  if (count == rows) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = rows;
  at::Tensor padded = at::empty(shape, x.options());
  padded.narrow(0, 0, count).copy_(x);
  padded.narrow(0, count, rows - count).zero_();
  return padded;
}

// Caps logits in place. Returns the slopes, where they are wanted.
at::Tensor cap(at::Tensor& logits, double softcap, bool want_slopes) {
  logits.div_(softcap).tanh_();
  const at::Tensor slopes = want_slopes ? 1 - logits.square() : at::Tensor();
  logits.mul_(softcap);
  return slopes;
}

// Rows of x (N, C), a norm, a head (V, C) with a bias, which may have no elements: none.
struct HeadInput {
  at::Tensor x, norm_weight, norm_bias, weight, bias, targets;
  double eps;
};

struct HeadResult {
  at::Tensor sum;  // of the losses, double
  LayerNormGradients d;
  at::Tensor dweight, dbias;

  // dweight where it goes: to where the embedding's gradient is awaited, or on to autograd.
  at::Tensor take_weight(const std::shared_ptr<SharedGradient>& shared) {
    if (!shared || !dweight.defined()) return std::exchange(dweight, {});
    if (shared->take_head) {
      shared->take_head(std::exchange(dweight, {}));
    } else {
      shared->value = std::exchange(dweight, {});
    }
    return {};
  }
};

// Losses and, where they are wanted, gradients, of what requires them. `factors`: (N) float32, what the
// gradient of each row is multiplied by besides options.scale; undefined: nothing.
HeadResult through_head(const HeadInput& in, const HeadOptions& options, bool gradient,
                        const at::Tensor& factors = {}) {
  const at::Tensor &x = in.x, &weight = in.weight;
  const LayerNormed normed = layer_norm(x, in.norm_weight, in.norm_bias, in.eps);
  const at::Tensor h = normed.y.to(options.compute);
  const int64_t vocabulary = weight.size(0), columns = padded_columns(h, vocabulary);
  const at::Tensor w = padded_rows(as_factor(weight, options.compute), columns);
  const at::Tensor b = in.bias.numel() > 0 ? padded_rows(in.bias.to(options.compute), columns) : at::Tensor();

  const bool need_weight = gradient && weight.requires_grad();
  const bool need_bias = gradient && in.bias.requires_grad() && b.defined();
  const int64_t count = x.size(0),
                chunk =
                    even_chunk(count, options.chunk > 0 ? options.chunk : default_chunk(h, columns, options));
  at::Tensor buffer = at::empty({std::min(chunk, count), columns}, h.options());
  const bool need_norm = gradient && any_needs_gradient(in.norm_weight, in.norm_bias),
             need_h = gradient && (need_norm || x.requires_grad());
  // Over all chunks they add up in float32, or in double where that is computed in. Rows are multiplied by
  // their factors where half a float's range is not in the way.
  const at::TensorOptions sums = weight.options().dtype(wide(options.compute));
  at::Tensor dh = need_h ? at::empty(h.sizes(), factors.defined() ? sums : h.options()) : at::Tensor();
  at::Tensor dweight = need_weight ? at::empty({columns, weight.size(1)}, sums) : at::Tensor();
  if (need_weight && count == 0) dweight.zero_();
  at::Tensor dbias = need_bias ? at::zeros(in.bias.sizes(), sums) : at::Tensor();
  at::Tensor sum = at::zeros({}, x.options().dtype(at::kDouble));
  for (int64_t begin = 0; begin < count; begin += chunk) {
    const int64_t size = std::min(chunk, count - begin);
    const at::Tensor h_chunk = h.narrow(0, begin, size);
    at::Tensor all = buffer.narrow(0, 0, size), logits = all.narrow(1, 0, vocabulary);
    gemm_out(all, h_chunk, w, {.b_transposed = true, .bias = b});
    const at::Tensor slopes = options.softcap > 0 ? cap(all, options.softcap, gradient) : at::Tensor();
    const at::Tensor& rows = options.row_losses;
    const at::Tensor wanted = rows.defined() ? rows.narrow(0, begin, size) : at::Tensor(),
                     right = in.targets.narrow(0, begin, size);
    sum.add_(options.teacher.is_wanted() ? mixed_loss(logits, right, gradient, options, wanted, begin)
                                         : cross_entropy(logits, right, gradient, options, wanted));
    if (!gradient) continue;
    if (slopes.defined()) all.mul_(slopes);
    const double factor = factor_left(logits, options.scale);
    const at::Tensor of_rows = factors.defined() ? factors.narrow(0, begin, size).unsqueeze(1) : at::Tensor();
    if (need_h) {
      at::Tensor dh_chunk = dh.narrow(0, begin, size);
      gemm_out(dh_chunk, all, w, {.factor = factor});
      if (of_rows.defined()) dh_chunk.mul_(of_rows);
    }
    if (need_weight) {
      const at::Tensor with = of_rows.defined() ? (h_chunk * of_rows).to(h.scalar_type()) : h_chunk;
      gemm_out(dweight, all, with, {.a_transposed = true, .accumulate = begin > 0, .factor = factor});
    }
    if (need_bias) dbias.add_(column_sum(of_rows.defined() ? logits * of_rows : logits), factor);
  }
  HeadResult result{.sum = sum, .d = {}, .dweight = {}, .dbias = dbias};
  if (need_weight) result.dweight = dweight.narrow(0, 0, vocabulary);
  buffer.reset();
  if (need_h)
    result.d = layer_norm_backward(dh.to(x.scalar_type()), x, in.norm_weight, in.norm_bias, normed.mean,
                                   normed.rstd, {}, x.requires_grad(), need_norm);
  return result;
}

// Gradients are computed here and only handed on in backward(). Inputs 0 to 4 are differentiable.
class CrossEntropyHead : public torch::autograd::Function<CrossEntropyHead> {
 public:
  static variable_list forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                               const Variable& norm_bias, const Variable& weight, const Variable& bias,
                               const at::Tensor& targets, double eps, const HeadOptions& options,
                               bool gradient) {
    HeadResult result =
        through_head({x, norm_weight, norm_bias, weight, bias, targets, eps}, options, gradient);
    if (gradient) {
      const LayerNormGradients& d = result.d;
      ctx->save_for_backward({d.x, d.weight, d.bias, result.dweight, result.dbias});
      keep(ctx, options);
    }
    const at::Tensor total = result.sum.to(at::kFloat);
    ctx->mark_non_differentiable({total});
    return {total, result.sum.mul(options.scale).to(at::kFloat)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor& factor = grads[1];
    auto saved = ctx->get_saved_variables();
    // The usual factor is exactly 1; on a device the host cannot look without waiting for it.
    const bool one = factor.is_cpu() ? factor.item<float>() == 1.0f : kept<HeadOptions>(ctx).factor_is_one;
    if (!one) {
      for (size_t i = 0; i < 5; ++i) {
        if (saved[i].defined()) saved[i] = saved[i] * factor;
      }
    }
    HeadResult result{.sum = {}, .d = {}, .dweight = std::exchange(saved[3], {}), .dbias = {}};
    const at::Tensor dweight = result.take_weight(kept<HeadOptions>(ctx).shared);
    return {saved[0], saved[1], saved[2], dweight, saved[4], Variable(), Variable(), Variable(), Variable()};
  }
};

// Computes the logits again in backward(), when each row's factor is known.
class CrossEntropyRows : public torch::autograd::Function<CrossEntropyRows> {
 public:
  struct Kept {
    HeadOptions options;
    double eps;
  };

  static Variable forward(AutogradContext* ctx, const Variable& x, const Variable& norm_weight,
                          const Variable& norm_bias, const Variable& weight, const Variable& bias,
                          const at::Tensor& targets, double eps, const HeadOptions& given) {
    HeadOptions options = given;
    options.row_losses = at::empty(targets.sizes(), x.options().dtype(at::kFloat));
    through_head({x, norm_weight, norm_bias, weight, bias, targets, eps}, options, false);
    ctx->save_for_backward({x, norm_weight, norm_bias, weight, bias, targets});
    keep(ctx, Kept{given, eps});
    return options.row_losses;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const auto& [options, eps] = kept<Kept>(ctx);
    HeadResult result = through_head({t[0], t[1], t[2], t[3], t[4], t[5], eps}, options, true,
                                     grads[0].to(at::kFloat).contiguous());
    const at::Tensor dweight = result.take_weight(options.shared);
    return {result.d.x,   result.d.weight, result.d.bias, dweight,
            result.dbias, Variable(),      Variable(),    Variable()};
  }
};

}  // namespace

LossSum cross_entropy_head(const at::Tensor& x, const at::Tensor& targets, const Norm& norm,
                           const at::Tensor& weight, const HeadOptions& options, const at::Tensor& bias) {
  check_range(targets, weight.size(0), "target");
  const bool gradient =
      at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad() ||
                                     norm.weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  const at::Tensor any_bias = bias.defined() ? bias : at::empty({0}, x.options());
  const at::Tensor norm_bias = bias_of(norm);
  const variable_list out = CrossEntropyHead::apply(x, norm.factor(), norm_bias, weight, any_bias, targets,
                                                    norm.eps, options, gradient);
  return {out[0], out[1]};
}

at::Tensor cross_entropy_rows(const at::Tensor& x, const at::Tensor& targets, const Norm& norm,
                              const at::Tensor& weight, const HeadOptions& options, const at::Tensor& bias) {
  check_range(targets, weight.size(0), "target");
  TORCH_CHECK(options.scale == 1 && !options.terms.any(), "cross_entropy_rows: has neither scale nor terms");
  return CrossEntropyRows::apply(x, norm.factor(), bias_of(norm), weight,
                                 bias.defined() ? bias : at::empty({0}, x.options()), targets, norm.eps,
                                 options);
}

at::Tensor head_logits(const at::Tensor& x, const Norm& norm, const at::Tensor& weight,
                       at::ScalarType compute, const at::Tensor& bias, double softcap) {
  const at::NoGradGuard no_grad;
  const at::Tensor norm_bias = bias_of(norm);
  const at::Tensor h = layer_norm(x, norm.factor(), norm_bias, norm.eps).y.to(compute);
  const at::Tensor b = bias.defined() ? bias.to(compute) : bias;
  at::Tensor logits = gemm(h, as_factor(weight, compute), {.b_transposed = true, .bias = b}).to(at::kFloat);
  if (softcap > 0) cap(logits, softcap, false);
  return logits;
}

}  // namespace pipeline::transformer
