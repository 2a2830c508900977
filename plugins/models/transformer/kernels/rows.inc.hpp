#pragma once

// Kernels that go over rows: layer norm, GELU, gated units, dropout, column sums, cross-entropy.

#include "gelu.inc.hpp"
#include "gemm.inc.hpp"
#include "kernels.hpp"
#include "simd.hpp"

namespace pipeline::transformer {
namespace {

// Calls body(j, load, store) for each vector of a row; the last one may be partial. Lanes beyond the end load
// as 0.
template <class Body>
PIPELINE_INLINE void for_vectors(int64_t begin, int64_t end, Body body) {
  int64_t j = begin;
  for (; j + kWidth <= end; j += kWidth) {
    body(
        j, [j](const float* p) __attribute__((always_inline)) { return load(p + j); },
        [j](float* p, Vec v) __attribute__((always_inline)) { store(p + j, v); });
  }
  if (j < end) {
    const int64_t live = end - j;
    body(
        j, [ j, live ](const float* p) __attribute__((always_inline)) { return load_part(p + j, live); },
        [ j, live ](float* p, Vec v) __attribute__((always_inline)) { store_part(p + j, v, live); });
  }
}

// Layer norm, or RMS norm where `mean`, `bias` and `dbias` are null.
PIPELINE_INLINE Vec center_of(const float* mean, int64_t row) { return mean ? splat(mean[row]) : Vec{}; }

static void layer_norm_again(const float* x, const float* weight, const float* bias, const float* mean,
                             const float* rstd, float* y, int64_t rows, int64_t columns) {
  for (int64_t n = 0; n < rows; ++n, x += columns, y += columns) {
    const Vec center = center_of(mean, n), scale = splat(rstd[n]);
    for_vectors(
        0, columns, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          put(y, multiply_add((get(x) - center) * scale, get(weight), bias ? get(bias) : Vec{}));
        });
  }
}

static void layer_norm(const float* x, const float* weight, const float* bias, float* y, float* mean,
                       float* rstd, int64_t rows, int64_t columns, float eps) {
  for (int64_t n = 0; n < rows; ++n, x += columns, y += columns) {
    if (mean) {
      Sum sum;
      for_vectors(
          0, columns, [&](int64_t j, auto get, auto) __attribute__((always_inline)) { sum.add(j, get(x)); });
      mean[n] = sum.total() / static_cast<float>(columns);
    }
    const Vec center = center_of(mean, n);
    // Two passes: the sum of squares less the squared mean would lose the digits of rows with a large mean.
    Sum squares;
    for_vectors(
        0, columns, [&](int64_t j, auto get, auto) __attribute__((always_inline)) {
          Vec d = get(x) - center;
          if (j + kWidth > columns) {
            float lanes[kWidth];
            store(lanes, d);
            d = load_part(lanes, columns - j);
          }
          squares.add(j, d, d);
        });
    rstd[n] = 1.0f / __builtin_sqrtf(squares.total() / static_cast<float>(columns) + eps);
    layer_norm_again(x, weight, bias, mean ? mean + n : nullptr, rstd + n, y, 1, columns);
  }
}

static void layer_norm_backward(const float* dy, const float* x, const float* weight, const float* mean,
                                const float* rstd, const float* residual, float* dx, int64_t rows,
                                int64_t columns) {
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t at = n * columns;
    const float *dy_row = dy + at, *x_row = x + at;
    const Vec center = center_of(mean, n), scale = splat(rstd[n]);
    Sum sum_g, sum_gx;
    for_vectors(
        0, columns, [&](int64_t j, auto get, auto) __attribute__((always_inline)) {
          const Vec g = get(dy_row) * get(weight);  // 0 in lanes beyond the end
          if (mean) sum_g.add(j, g);
          sum_gx.add(j, g, (get(x_row) - center) * scale);
        });
    const Vec mean_g = mean ? splat(sum_g.total() / static_cast<float>(columns)) : Vec{};
    const Vec mean_gx = splat(sum_gx.total() / static_cast<float>(columns));
    for_vectors(
        0, columns, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          const Vec g = get(dy_row) * get(weight);
          Vec d = (g - mean_g - (get(x_row) - center) * scale * mean_gx) * scale;
          if (residual) d += get(residual + at);
          put(dx + at, d);
        });
  }
}

static void layer_norm_backward_parameters(const float* dy, const float* x, const float* mean,
                                           const float* rstd, float* dweight, float* dbias, int64_t rows,
                                           int64_t columns, int64_t begin, int64_t end) {
  for_vectors(
      begin, end, [&](int64_t, auto, auto put) __attribute__((always_inline)) {
        put(dweight, Vec{});
        if (dbias) put(dbias, Vec{});
      });
  for (int64_t n = 0; n < rows; ++n, dy += columns, x += columns) {
    const Vec center = center_of(mean, n), scale = splat(rstd[n]);
    for_vectors(
        begin, end, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          const Vec d = get(dy);
          put(dweight, get(dweight) + d * ((get(x) - center) * scale));
          if (dbias) put(dbias, get(dbias) + d);
        });
  }
}

template <Gelu Form>
static void gelu_in_form(const float* x, float* y, int64_t count) {
  for_vectors(
      0, count, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
        put(y, gelu_of<Form>(get(x)));
      });
}

template <Gelu Form>
static void gelu_backward_in_form(const float* x, float* y, float* d, int64_t count) {
  for_vectors(
      0, count, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
        const GeluAndSlope gelu = gelu_and_slope_of<Form>(get(x));
        put(y, gelu.value);
        put(d, get(d) * gelu.slope);
      });
}

static void gelu(Gelu form, const float* x, float* y, int64_t count) {
  if (form == Gelu::kTanh) return gelu_in_form<Gelu::kTanh>(x, y, count);
  if (form == Gelu::kExact) return gelu_in_form<Gelu::kExact>(x, y, count);
  gelu_in_form<Gelu::kQuick>(x, y, count);
}

static void gelu_backward(Gelu form, const float* x, float* y, float* d, int64_t count) {
  if (form == Gelu::kTanh) return gelu_backward_in_form<Gelu::kTanh>(x, y, d, count);
  if (form == Gelu::kExact) return gelu_backward_in_form<Gelu::kExact>(x, y, d, count);
  gelu_backward_in_form<Gelu::kQuick>(x, y, d, count);
}

template <Gate Form>
PIPELINE_INLINE GeluAndSlope gate_and_slope_of(Vec g) {
  if constexpr (Form == Gate::kGelu) return gelu_and_slope_of<Gelu::kTanh>(g);
  if constexpr (Form == Gate::kExactGelu) return gelu_and_slope_of<Gelu::kExact>(g);
  const Vec open = sigmoid(g), passed = g * open;
  return {passed, open + passed * (1.0f - open)};  // silu' = s (1 + g (1 - s))
}

template <Gate Form>
static void gated_unit_in_form(const float* gated, float* h, int64_t rows, int64_t inner) {
  for (int64_t n = 0; n < rows; ++n, gated += 2 * inner, h += inner) {
    for_vectors(
        0, inner, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          put(h, gate_and_slope_of<Form>(get(gated)).value * get(gated + inner));
        });
  }
}

template <Gate Form>
static void gated_unit_backward_in_form(const float* gated, float* dh, float* dgated, int64_t rows,
                                        int64_t inner) {
  for (int64_t n = 0; n < rows; ++n, gated += 2 * inner, dh += inner, dgated += 2 * inner) {
    for_vectors(
        0, inner, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          const GeluAndSlope gate = gate_and_slope_of<Form>(get(gated));
          const Vec up = get(gated + inner), d = get(dh);
          put(dh, gate.value * up);
          put(dgated, d * up * gate.slope);
          put(dgated + inner, d * gate.value);
        });
  }
}

static void gated_unit(Gate gate, const float* gated, float* h, int64_t rows, int64_t inner) {
  if (gate == Gate::kSilu) return gated_unit_in_form<Gate::kSilu>(gated, h, rows, inner);
  if (gate == Gate::kGelu) return gated_unit_in_form<Gate::kGelu>(gated, h, rows, inner);
  gated_unit_in_form<Gate::kExactGelu>(gated, h, rows, inner);
}

static void gated_unit_backward(Gate gate, const float* gated, float* dh, float* dgated, int64_t rows,
                                int64_t inner) {
  if (gate == Gate::kSilu) return gated_unit_backward_in_form<Gate::kSilu>(gated, dh, dgated, rows, inner);
  if (gate == Gate::kGelu) return gated_unit_backward_in_form<Gate::kGelu>(gated, dh, dgated, rows, inner);
  gated_unit_backward_in_form<Gate::kExactGelu>(gated, dh, dgated, rows, inner);
}

static void column_sum(const float* x, float* total, int64_t rows, int64_t columns, int64_t begin,
                       int64_t end) {
  for_vectors(
      begin, end, [&](int64_t, auto, auto put) __attribute__((always_inline)) { put(total, Vec{}); });
  for (int64_t n = 0; n < rows; ++n, x += columns) {
    for_vectors(
        begin, end, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          put(total, get(total) + get(x));
        });
  }
}

static void add(const float* x, float* y, int64_t count) {
  for_vectors(
      0, count, [&](int64_t, auto get, auto put) __attribute__((always_inline)) { put(y, get(y) + get(x)); });
}

// scale where the element is kept, 0 where it is dropped, for elements j .. j + kWidth - 1. Chris Wellons'
// 32-bit finalizer.
PIPELINE_INLINE Vec dropout_mask(DropoutRow row, int64_t j) {
  UintVec h;
  for (int i = 0; i < kWidth; ++i) h[i] = static_cast<uint32_t>(i);
  h = (h + static_cast<uint32_t>(j)) * 0x9e3779b1u + static_cast<uint32_t>(row.key);
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15) ^ static_cast<uint32_t>(row.key >> 32)) * 0x846ca68bu;
  h ^= h >> 16;
  return h >= (UintVec{} + row.threshold) ? splat(row.scale) : Vec{};
}

static void dropout(const float* x, const float* residual, float* y, int64_t columns, DropoutRow row) {
  for_vectors(
      0, columns, [&](int64_t j, auto get, auto put) __attribute__((always_inline)) {
        const Vec kept = get(x) * dropout_mask(row, j);
        put(y, residual ? kept + get(residual) : kept);
      });
}

PIPELINE_INLINE float row_max(const float* x, int64_t count) {
  Vec top = splat(-__builtin_inff());
  int64_t j = 0;
  for (; j + kWidth <= count; j += kWidth) top = max(top, load(x + j));
  if (j < count) top = max(top, load_part(x + j, count - j, -__builtin_inff()));
  return max(top);
}

// x = exp(x * scale - shift), and the sum of that.
PIPELINE_INLINE float row_exp(float* x, int64_t count, float scale, float shift) {
  Sum total;
  int64_t j = 0;
  for (; j + kWidth <= count; j += kWidth) {
    const Vec e = exp(multiply_add(load(x + j), splat(scale), splat(-shift)));
    store(x + j, e);
    total.add(j, e);
  }
  if (j < count) {
    const Vec last = load_part(x + j, count - j, -__builtin_inff());
    const Vec e = exp(multiply_add(last, splat(scale), splat(-shift)));
    store_part(x + j, e, count - j);
    total.add(j, e);
  }
  return total.total();
}

// The mean of x - from.
PIPELINE_INLINE float row_mean(const float* x, int64_t count, float from) {
  Sum total;
  int64_t j = 0;
  for (; j + kWidth <= count; j += kWidth) total.add(j, load(x + j) - from);
  if (j < count) total.add(j, load_part(x + j, count - j, from) - from);
  return total.total() / static_cast<float>(count);
}

// The gradient of z logsumexp(x)^2 is 2 z logsumexp(x) softmax(x). Without terms nothing here is rounded
// otherwise than if they were not there.
static RowLoss cross_entropy_row(float* logits, int64_t columns, int64_t target, bool gradient, float scale,
                                 const LossTerms& terms) {
  const auto z = static_cast<float>(terms.z_loss), smoothing = static_cast<float>(terms.label_smoothing);
  const float top = row_max(logits, columns);
  const float at_target = logits[target] - top;
  const float over_mean = smoothing > 0 ? at_target - row_mean(logits, columns, top) : 0;
  const float total = row_exp(logits, columns, 1.0f, top);
  const float log_total = __builtin_logf(total), log_sum = top + log_total;
  if (gradient) {
    const Vec factor = splat(scale / total * (1.0f + 2.0f * z * log_sum));
    const Vec everywhere = splat(scale * smoothing / static_cast<float>(columns));
    for_vectors(
        0, columns, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          put(logits, get(logits) * factor - everywhere);
        });
    logits[target] -= scale * (1.0f - smoothing);
  }
  return {log_total - at_target, smoothing * over_mean + z * log_sum * log_sum};
}

// Over pairs of positions.
static void gaussians(const float* x, int64_t count, const float* centers, int64_t functions, float factor,
                      float* out, int64_t stride) {
  for (int64_t i = 0; i < count; ++i, out += stride) {
    const Vec at = splat(x[i]);
    for_vectors(
        0, functions, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          const Vec d = at - get(centers);
          put(out, exp(d * d * -factor));
        });
  }
}

}  // namespace
}  // namespace pipeline::transformer
