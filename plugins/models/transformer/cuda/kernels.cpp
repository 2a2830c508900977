#include "kernels.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <string>

#include "program.hpp"

namespace pipeline::transformer::cuda {
namespace {

constexpr int64_t kWarp = 32, kMostThreads = 1024, kVectorBytes = 16;

std::string named(const char* kernel, const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  const char* const suffix = type == at::kBFloat16 ? "_bfloat16" : type == at::kHalf ? "_float16" : "_float";
  return kernel + std::string(suffix);
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

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kVectorBytes == 0;
}

// The memory of `rows`; null where it is undefined. It has to be as x is, row by row.
void* rows_as(const at::Tensor& x, const at::Tensor& rows, const char* what) {
  if (!rows.defined()) return nullptr;
  TORCH_CHECK(rows.scalar_type() == x.scalar_type() && rows.device() == x.device() && rows.is_contiguous() &&
                  rows.size(-1) == x.size(1) && is_aligned(rows),
              what, ": ", rows.toString(), " ", rows.sizes(), ", for x ", x.toString(), " ", x.sizes());
  return const_cast<void*>(rows.const_data_ptr());
}

static_assert(static_cast<int>(Gelu::kTanh) == 0 && static_cast<int>(Gelu::kExact) == 1);  // as gelu.cu says

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
