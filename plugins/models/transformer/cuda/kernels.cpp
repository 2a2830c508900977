#include "kernels.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <string>

#include "device_code.hpp"
#include "plugins/gpu/program.hpp"

namespace pipeline::transformer::cuda {

using gpu::is_aligned, gpu::kVectorBytes, gpu::Program;

namespace {

constexpr int64_t kWarp = 32, kMostThreads = 1024;

std::string named(const char* kernel, const at::Tensor& x) {
  return gpu::kernel_for(kernel, x.scalar_type());
}

// The vectors in a row, the last of them perhaps in part.
int64_t vectors(const at::Tensor& x) {
  return (x.size(1) * x.element_size() + kVectorBytes - 1) / kVectorBytes;
}

int64_t whole_warps(int64_t threads) { return (threads + kWarp - 1) / kWarp * kWarp; }

// Rows of each block where sums over rows are made: about so many blocks fill a device, and leave few sums to
// add.
constexpr int64_t kBlocks = 1024;
int64_t rows_of_block(int64_t rows) { return (rows + kBlocks - 1) / kBlocks; }

const float* floats_or_null(const at::Tensor& x) {
  return x.defined() && x.numel() > 0 ? x.const_data_ptr<float>() : nullptr;
}
float* floats_or_null(at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

// The memory of `rows`; null where it is undefined. It has to be as x is, row by row.
void* rows_as(const at::Tensor& x, const at::Tensor& rows, const char* what) {
  if (!rows.defined()) return nullptr;
  TORCH_CHECK(rows.scalar_type() == x.scalar_type() && rows.device() == x.device() && rows.is_contiguous() &&
                  rows.size(-1) == x.size(1) && is_aligned(rows),
              what, ": ", rows.toString(), " ", rows.sizes(), ", for x ", x.toString(), " ", x.sizes());
  return const_cast<void*>(rows.const_data_ptr());
}

const void* rows_or_null(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }

static_assert(static_cast<int>(Gate::kSilu) == 0 && static_cast<int>(Gate::kGelu) == 1 &&
              static_cast<int>(Gate::kExactGelu) == 2 && static_cast<int>(Gelu::kTanh) == 0 &&
              static_cast<int>(Gelu::kExact) == 1);  // as the kernels say

}  // namespace

bool has_kernels_for(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return x.is_cuda() && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

bool has_row_kernels_for(const at::Tensor& x) {
  return has_kernels_for(x) && x.dim() == 2 && x.is_contiguous() && x.numel() > 0 &&
         x.size(1) * x.element_size() % kVectorBytes == 0 && is_aligned(x);
}

bool has_norm_kernels_for(const at::Tensor& x) {
  return has_row_kernels_for(x) && vectors(x) <= kMostThreads;
}

bool has_gated_kernels_for(const at::Tensor& gated) {
  return has_row_kernels_for(gated) && gated.size(1) / 2 * gated.element_size() % kVectorBytes == 0;
}

at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, bool gradient, double scale,
                         const LossTerms& terms, at::Tensor added) {
  static Program program("cross_entropy.cu", kCrossEntropy);
  const int64_t rows = logits.size(0), columns = logits.size(1);
  at::Tensor losses = at::empty({rows}, logits.options().dtype(at::kFloat));
  if (rows == 0) return losses;
  TORCH_CHECK(logits.stride(0) * logits.element_size() % kVectorBytes == 0 && logits.stride(1) == 1 &&
                  is_aligned(logits) && targets.is_contiguous() && targets.device() == logits.device(),
              "cross_entropy: logits ", logits.sizes(), " with strides ", logits.strides());
  program.launch(named("cross_entropy", logits), logits.device(), rows,
                 std::min(whole_warps(vectors(logits)), kMostThreads), logits.mutable_data_ptr(),
                 static_cast<long long>(logits.stride(0)), static_cast<int>(columns),
                 targets.const_data_ptr<int64_t>(), losses.mutable_data_ptr<float>(), floats_or_null(added),
                 static_cast<int>(gradient), static_cast<float>(scale), static_cast<float>(terms.z_loss),
                 static_cast<float>(terms.label_smoothing));
  return losses;
}

at::Tensor decode(quantization::Form form, const at::Tensor& data, int64_t columns, at::ScalarType type) {
  static Program program("decode.cu", kDecode);
  static const at::Tensor& tables = *new at::Tensor([&] {  // not let go of when the device is gone
    std::array<float, 16 + 256> all;
    std::ranges::copy(quantization::dynamic_map(),
                      std::ranges::copy(quantization::kNf4Levels, all.begin()).out);
    return at::tensor(c10::ArrayRef<float>(all)).to(data.device());
  }());
  constexpr int64_t kThreads = 256;
  at::Tensor values = at::empty({data.size(0), columns}, data.options().dtype(type));
  const int64_t vectors = (values.numel() * values.element_size() + kVectorBytes - 1) / kVectorBytes;
  program.launch(named("decode", values), data.device(), (vectors + kThreads - 1) / kThreads, kThreads,
                 static_cast<int>(form == quantization::Form::kNf4),
                 static_cast<const unsigned char*>(data.const_data_ptr()),
                 static_cast<long long>(data.stride(0)), static_cast<long long>(data.size(0)),
                 static_cast<int>(columns), tables.const_data_ptr<float>(), values.mutable_data_ptr());
  return values;
}

namespace {

// How a kernel that makes sums over rows divides x among its blocks, and where they go.
struct RowSums {
  explicit RowSums(const at::Tensor& x)
      : strips((vectors(x) + kThreads - 1) / kThreads),
        each(rows_of_block(x.size(0))),
        groups((x.size(0) + each - 1) / each),
        of_groups(at::empty({groups, x.size(1)}, x.options().dtype(at::kFloat))) {}

  static constexpr int64_t kThreads = 128;
  int64_t strips, each, groups;
  at::Tensor of_groups;
};

}  // namespace

at::Tensor column_sum(const at::Tensor& x) {
  static Program program("column_sum.cu", kColumnSum);
  RowSums sums(x);
  program.launch(named("column_sum", x), x.device(), sums.groups * sums.strips, RowSums::kThreads,
                 x.const_data_ptr(), sums.of_groups.mutable_data_ptr<float>(),
                 static_cast<long long>(x.size(0)), static_cast<int>(x.size(1)),
                 static_cast<int>(sums.strips), static_cast<int>(sums.each));
  return sums.of_groups.sum(0);
}

at::Tensor gelu_backward(const at::Tensor& x, at::Tensor& d, at::Tensor& y, Gelu form) {
  static Program program("gelu.cu", kGelu);
  RowSums sums(x);
  program.launch(named("gelu_backward", x), x.device(), sums.groups * sums.strips, RowSums::kThreads,
                 static_cast<int>(form), x.const_data_ptr(), rows_as(x, d, "d"), rows_as(x, y, "y"),
                 sums.of_groups.mutable_data_ptr<float>(), static_cast<long long>(x.size(0)),
                 static_cast<int>(x.size(1)), static_cast<int>(sums.strips), static_cast<int>(sums.each));
  return sums.of_groups.sum(0);
}

namespace {

constexpr int64_t kGatedThreads = 256;
int64_t gated_blocks(const at::Tensor& gated) {
  return (gated.size(0) * vectors(gated) / 2 + kGatedThreads - 1) / kGatedThreads;
}
Program& gated_program() {
  static Program program("gated_unit.cu", kGatedUnit);
  return program;
}

// Threads for each head, and heads of a block: as heads.cu has them.
constexpr int64_t kHeadThreads = 128;
int64_t heads_at_once(const at::Tensor& x, const Heads& heads) {
  int64_t group = 1;
  while (group * kVectorBytes < heads.width / 2 * x.element_size()) group *= 2;
  return kHeadThreads / group;
}
Program& heads_program() {
  static Program program("heads.cu", kHeads);
  return program;
}

}  // namespace

at::Tensor gated_unit(const at::Tensor& gated, Gate gate) {
  at::Tensor h = at::empty({gated.size(0), gated.size(1) / 2}, gated.options());
  gated_program().launch(named("gated_unit", gated), gated.device(), gated_blocks(gated), kGatedThreads,
                         static_cast<int>(gate), gated.const_data_ptr(), h.mutable_data_ptr(),
                         static_cast<long long>(h.size(0)), static_cast<int>(h.size(1)));
  return h;
}

void gated_unit_backward(const at::Tensor& gated, const at::Tensor& dh, at::Tensor& dgated, at::Tensor& h,
                         Gate gate) {
  TORCH_CHECK(dh.scalar_type() == gated.scalar_type() && dh.is_contiguous() && is_aligned(dh) &&
                  dh.size(1) * 2 == gated.size(1),
              "gated_unit_backward: dh ", dh.sizes(), " for ", gated.sizes());
  gated_program().launch(named("gated_unit_backward", gated), gated.device(), gated_blocks(gated),
                         kGatedThreads, static_cast<int>(gate), gated.const_data_ptr(), dh.const_data_ptr(),
                         dgated.mutable_data_ptr(), h.defined() ? h.mutable_data_ptr() : nullptr,
                         static_cast<long long>(dh.size(0)), static_cast<int>(dh.size(1)));
}

bool has_head_kernels_for(const at::Tensor& x, const Heads& heads) {
  const int64_t bytes = heads.width / 2 * x.element_size();
  const auto takes = [&](const at::Tensor& weight) {
    return !weight.defined() || (weight.scalar_type() == x.scalar_type() && weight.is_contiguous() &&
                                 weight.numel() == heads.width && is_aligned(weight));
  };
  return has_row_kernels_for(x) && bytes % kVectorBytes == 0 && bytes <= kWarp * kVectorBytes &&
         x.size(1) % heads.width == 0 && takes(heads.query_weight) && takes(heads.key_weight);
}

void turn_heads(const at::Tensor& x, at::Tensor& y, const Heads& heads, bool back) {
  const int64_t count = x.is_same(y) ? heads.turned : x.size(1) / heads.width,
                at_once = heads_at_once(x, heads);
  heads_program().launch(
      named("heads", x), x.device(), (x.size(0) * count + at_once - 1) / at_once, kHeadThreads,
      x.const_data_ptr(), rows_as(x, y, "y"), static_cast<long long>(x.size(0)), static_cast<int>(x.size(1)),
      static_cast<int>(count), static_cast<int>(heads.queries), static_cast<int>(heads.turned),
      static_cast<int>(heads.width / 2), rows_or_null(heads.query_weight), rows_or_null(heads.key_weight),
      static_cast<float>(heads.eps), floats_or_null(heads.cos), floats_or_null(heads.sin),
      back ? -1.0f : 1.0f);
}

HeadGradients turn_heads_backward(const at::Tensor& dy, const at::Tensor& x, const Heads& heads,
                                  bool need_weights) {
  const int64_t rows = x.size(0), each = rows_of_block(rows), blocks = (rows + each - 1) / each;
  HeadGradients result{at::empty_like(x), {}, {}};
  at::Tensor sums;
  if (need_weights)
    sums = at::empty({blocks * heads_at_once(x, heads), 2, heads.width}, x.options().dtype(at::kFloat));
  heads_program().launch(
      named("heads_backward", x), x.device(), blocks, kHeadThreads, rows_as(x, dy, "dy"), x.const_data_ptr(),
      result.dx.mutable_data_ptr(), static_cast<long long>(rows), static_cast<int>(x.size(1)),
      static_cast<int>(x.size(1) / heads.width), static_cast<int>(heads.queries),
      static_cast<int>(heads.turned), static_cast<int>(heads.width / 2), rows_or_null(heads.query_weight),
      rows_or_null(heads.key_weight), static_cast<float>(heads.eps), floats_or_null(heads.cos),
      floats_or_null(heads.sin), floats_or_null(sums), static_cast<int>(each));
  if (!need_weights) return result;
  const at::Tensor total = sums.sum(0);
  if (heads.query_weight.defined()) result.query_weight = total[0];
  if (heads.key_weight.defined()) result.key_weight = total[1];
  return result;
}

std::pair<at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                      const at::Tensor& weight, const at::Tensor& mean,
                                                      const at::Tensor& rstd, const at::Tensor& residual,
                                                      const at::Tensor& dx, bool need_parameters) {
  static Program program("layer_norm.cu", kLayerNorm);
  const int64_t rows = x.size(0), columns = x.size(1), each = rows_of_block(rows);
  const int64_t blocks = (rows + each - 1) / each;
  at::Tensor of_weight, of_bias;
  if (need_parameters) {
    of_weight = at::empty({blocks, columns}, x.options().dtype(at::kFloat));
    of_bias = at::empty_like(of_weight);
  }
  program.launch(named("layer_norm_backward", x), x.device(), blocks, whole_warps(vectors(x)),
                 rows_as(x, dy, "dy"), x.const_data_ptr(), rows_as(x, weight, "weight"), floats_or_null(mean),
                 rstd.const_data_ptr<float>(), rows_as(x, residual, "residual"), rows_as(x, dx, "dx"),
                 floats_or_null(of_weight), floats_or_null(of_bias), static_cast<long long>(rows),
                 static_cast<int>(columns), static_cast<int>(each));
  if (!need_parameters) return {};
  return {of_weight.sum(0), of_bias.sum(0)};
}

}  // namespace pipeline::transformer::cuda
