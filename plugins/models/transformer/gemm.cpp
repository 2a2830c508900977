#include "gemm.hpp"

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/stack.h>

#include "cuda/kernels.hpp"
#include "fast_path.hpp"
#include "kernels/kernels.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

// c (float32) [+]= factor left right, of bfloat16 or float16. CUDA adds up in float32 all the way. The CPU
// has no such product: parts of it are rounded once each, and small enough to stay in the cache.
void wide_product(at::Tensor& c, const at::Tensor& left, const at::Tensor& right,
                  const GemmOptions& options) {
  if (!c.is_cpu()) {
    if (options.accumulate || options.factor != 1) {
      at::addmm_out(c, c, left, right, c.scalar_type(), /*beta=*/options.accumulate ? 1 : 0, options.factor);
    } else {
      at::mm_out(c, left, right, c.scalar_type());
    }
    return;
  }
  constexpr int64_t kElements = 1 << 19;
  const int64_t rows = std::max<int64_t>(1, kElements / std::max<int64_t>(1, c.size(1)));
  for (int64_t begin = 0; begin < c.size(0); begin += rows) {
    const int64_t count = std::min(rows, c.size(0) - begin);
    const at::Tensor part = at::mm(left.narrow(0, begin, count), right);
    at::Tensor place = c.narrow(0, begin, count);
    options.accumulate ? place.add_(part, options.factor) : place.copy_(part);
    if (!options.accumulate && options.factor != 1) place.mul_(options.factor);
  }
}

void aten_gemm(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const GemmOptions& options) {
  const at::Tensor left = options.a_transposed ? a.t() : a;
  const at::Tensor right = options.b_transposed ? b.t() : b;
  const bool plain = !options.bias.defined() && !options.addend.defined() && !options.gelu.defined();
  if (c.scalar_type() != a.scalar_type()) {
    TORCH_CHECK(c.scalar_type() == at::kFloat && plain, "gemm: ", a.scalar_type(), " into ", c.scalar_type(),
                " is for plain products in float32");
    return wide_product(c, left, right, options);
  }
  if (options.factor != 1) {
    TORCH_CHECK(plain, "gemm: a factor is for plain products");
    c.addmm_(left, right, /*beta=*/options.accumulate ? 1 : 0, options.factor);
    return;
  }
  if (options.accumulate) {
    c.addmm_(left, right);
    if (options.bias.defined()) c.add_(options.bias);
  } else if (options.bias.defined()) {
    at::addmm_out(c, options.bias, left, right);
  } else {
    at::mm_out(c, left, right);
  }
  if (options.addend.defined()) c.add_(options.addend);
  if (options.gelu.defined()) {
    at::Tensor gelu = options.gelu;
    gelu_by_torch(gelu, c, options.gelu_form);
  }
}

// Rows x columns of threads that read least: each thread packs the rows of a and the columns of b that its
// part of c needs.
struct Grid {
  int64_t rows, columns;
};

Grid best_grid(const Gemm& whole, int64_t threads) {
  Grid best{1, threads};
  int64_t least = INT64_MAX;
  for (int64_t rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int64_t cost = whole.m / rows + whole.n / (threads / rows);
    if (cost < least) least = cost, best = {rows, threads / rows};
  }
  return best;
}

int64_t share(int64_t size, int64_t parts, int64_t multiple) {
  const int64_t each = (size + parts - 1) / parts;
  return (each + multiple - 1) / multiple * multiple;
}

void run(const Gemm& whole) {
  const Kernels& kernel = kernels();
  const Grid grid = best_grid(whole, parallel::thread_count());
  const int64_t rows = share(whole.m, grid.rows, kernel.gemm_rows);
  const int64_t columns = share(whole.n, grid.columns, kernel.gemm_columns);
  parallel::tasks(grid.rows * grid.columns, 2 * whole.m * whole.n * whole.k, [&](int64_t part) {
    const int64_t i = part / grid.columns * rows, j = part % grid.columns * columns;
    if (i >= whole.m || j >= whole.n) return;
    Gemm mine = whole;
    mine.m = std::min(rows, whole.m - i);
    mine.n = std::min(columns, whole.n - j);
    mine.a += i * (whole.a_transposed ? 1 : whole.lda);
    const int64_t first = j * (whole.b_transposed ? whole.ldb : 1);
    if (whole.coded_b) {
      whole.b_transposed ? void(mine.coded_b += first) : void(mine.coded_first += first);
    } else {
      whole.narrow_b ? void(mine.narrow_b += first) : void(mine.b += first);
    }
    mine.c += i * whole.ldc + j;
    if (whole.bias) mine.bias += j;
    if (whole.addend) mine.addend += i * whole.ldc + j;
    if (whole.gelu) mine.gelu += i * whole.ldc + j;
    kernel.gemm(mine);
  });
}

// b is coded, and the product is not for our kernels: on the CPU some of b's rows are widened at a time, on a
// device all of them, into memory that matrices use in turn.
void aten_gemm_coded(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const GemmOptions& options) {
  constexpr int64_t kElements = int64_t{1} << 20;
  const int64_t all = outputs(b),
                rows = b.is_cpu() ? std::clamp<int64_t>(kElements / inputs(b), 1, all) : all;
  const bool whole = rows == all;
  for (int64_t first = 0; first < all; first += rows) {
    const int64_t count = std::min(rows, all - first);
    const at::Tensor part = decoded(outputs_of(b, first, count), a.scalar_type());
    GemmOptions of_part = options;
    if (options.b_transposed) {  // parts of one sum
      of_part.accumulate = options.accumulate || first > 0;
      if (first > 0) of_part.bias = of_part.addend = at::Tensor();
      const at::Tensor left = options.a_transposed ? a.narrow(0, first, count) : a.narrow(1, first, count);
      aten_gemm(c, left, part, of_part);
    } else {
      at::Tensor place = c.narrow(1, first, count);
      const auto columns = [&](at::Tensor& t, int64_t dim) {
        if (t.defined()) t = t.narrow(dim, first, count);
      };
      columns(of_part.bias, 0), columns(of_part.addend, 1), columns(of_part.gelu, 1);
      at::Tensor made = whole                ? place
                        : options.accumulate ? place.contiguous()
                                             : at::empty(place.sizes(), c.options());
      aten_gemm(made, a, part, of_part);
      if (!whole) place.copy_(made);
    }
  }
}

}  // namespace

void gemm_out(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const GemmOptions& options) {
  const int64_t m = a.size(options.a_transposed ? 1 : 0), k = a.size(options.a_transposed ? 0 : 1);
  const int64_t n = options.b_transposed ? inputs(b) : outputs(b);
  TORCH_CHECK((options.b_transposed ? outputs(b) : inputs(b)) == k && c.size(0) == m && c.size(1) == n,
              "gemm: ", a.sizes(), " and ", b.sizes(), " into ", c.sizes());
  const bool coded = is_coded(b), narrow = !coded && is_widened(b, a.scalar_type());
  const bool fast_b = coded ? b.is_cpu() : narrow ? b.stride(1) == 1 : fast_rows(b);
  if (!fast_rows(a) || !fast_b || !fast_rows(c) || k == 0 || options.factor != 1) {
    if (coded) return aten_gemm_coded(c, a, b, options);
    return aten_gemm(c, a, narrow ? b.to(at::kFloat) : b, options);
  }
  if (m == 0 || n == 0) return;
  TORCH_CHECK(c.stride(0) == n || !(options.addend.defined() || options.gelu.defined()),
              "gemm: addend and gelu need a contiguous result");
  run({.m = m,
       .n = n,
       .k = k,
       .a = a.const_data_ptr<float>(),
       .lda = a.stride(0),
       .a_transposed = options.a_transposed,
       .b = narrow || coded ? nullptr : b.const_data_ptr<float>(),
       .ldb = b.stride(0),
       .b_transposed = options.b_transposed != coded,
       .c = c.mutable_data_ptr<float>(),
       .ldc = c.stride(0),
       .accumulate = options.accumulate,
       .bias = options.bias.defined() ? options.bias.const_data_ptr<float>() : nullptr,
       .addend = options.addend.defined() ? options.addend.const_data_ptr<float>() : nullptr,
       .gelu = options.gelu.defined() ? options.gelu.mutable_data_ptr<float>() : nullptr,
       .form = options.gelu_form,
       .narrow_b = narrow ? static_cast<const uint16_t*>(b.const_data_ptr()) : nullptr,
       .coded_b = coded ? static_cast<const uint8_t*>(b.const_data_ptr()) : nullptr,
       .coded_form = form_of(b),
       .coded_columns = inputs(b)});
}

at::Tensor gemm(const at::Tensor& a, const at::Tensor& b, const GemmOptions& options) {
  at::Tensor c = at::empty(
      {a.size(options.a_transposed ? 1 : 0), options.b_transposed ? inputs(b) : outputs(b)}, a.options());
  gemm_out(c, a, b, options);
  return c;
}

at::ScalarType wide(at::ScalarType type) { return at::promote_types(type, at::kFloat); }

at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& weight, bool needed) {
  if (!needed) return {};
  if (at::Tensor sum = gradient_so_far(weight); sum.defined()) {
    gemm_out(sum, x, dy, {.a_transposed = true, .accumulate = true});
    return {};
  }
  if (x.is_cpu())
    return gemm(x, dy, {.a_transposed = true});  // whose products are not wider than their factors
  at::Tensor dw = at::empty({x.size(1), dy.size(1)}, x.options().dtype(wide(x.scalar_type())));
  gemm_out(dw, x, dy, {.a_transposed = true});
  return dw;
}

at::Tensor total(const at::Tensor& x, at::ScalarType type) {
  constexpr int64_t kPiece = 1 << 14;  // half of what LibTorch gives one thread
  if (!x.is_cpu() || x.numel() <= kPiece) return x.sum(type);
  std::vector<at::Tensor> pieces;
  for (const at::Tensor& piece : x.reshape({-1}).split(kPiece)) pieces.push_back(piece.sum(type));
  return total(at::stack(pieces), type);
}

at::Tensor column_sum(const at::Tensor& x) {
  if (cuda::has_row_kernels_for(x)) return cuda::column_sum(x);
  if (!fast_path(x)) return x.sum(0, /*keepdim=*/false, wide(x.scalar_type()));
  at::Tensor total = at::empty({x.size(1)}, x.options());
  parallel::rows(x.size(1), 64, x.size(0), [&](int64_t begin, int64_t end) {
    kernels().column_sum(x.const_data_ptr<float>(), total.mutable_data_ptr<float>(), x.size(0), x.size(1),
                         begin, end);
  });
  return total;
}

}  // namespace pipeline::transformer
