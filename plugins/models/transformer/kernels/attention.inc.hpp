#pragma once

// Attention of one head over one sequence, a block of queries at a time: the block's scores against every key
// that it sees fit the second-level cache, so the softmax is exact in one pass and nothing of size queries x
// keys is ever kept. The backward pass computes the scores again from q, k and the rows' log-sums.

#include "gemm.inc.hpp"
#include "kernels.hpp"
#include "rows.inc.hpp"

namespace pipeline::transformer {
namespace {

constexpr int64_t kQueryBlock = 126;  // of every width: gradients of keys are added block by block
static_assert(kQueryBlock % kTileRows == 0);

PIPELINE_INLINE int64_t visible(const AttentionHead& head, int64_t query) {
  if (!head.positions) return head.keys;
  const int64_t end = head.positions[query] + 1 + head.ahead;
  return end < head.keys ? end : head.keys;
}

// The first key that a query sees; visible() is one more than the last.
PIPELINE_INLINE int64_t first_visible(const AttentionHead& head, int64_t query) {
  if (head.window == 0) return 0;
  const int64_t end = head.positions[query] + 1;
  return end > head.window ? end - head.window : 0;
}

static int64_t most_visible(const AttentionHead& head, int64_t begin, int64_t count) {
  int64_t most = 0;
  for (int64_t r = begin; r < begin + count; ++r) most = visible(head, r) > most ? visible(head, r) : most;
  return most;
}

PIPELINE_INLINE DropoutRow dropout_row(const AttentionHead& head, int64_t query) {
  return {dropout_row_key(head.dropout_key, static_cast<uint64_t>(query)), head.dropout_threshold,
          head.dropout_scale};
}

// products (rows, seen) = x (rows, width) y (seen, width)^T
static void block_products(const float* x, int64_t x_stride, const float* y, int64_t y_stride, int64_t rows,
                           int64_t seen, int64_t width, float* products) {
  gemm({rows, seen, width, x, x_stride, false, y, y_stride, true, products, seen});
}

// The scores (rows, seen) of the queries from `begin` on, by what is returned: a bias or a cap takes them
// scaled.
static float block_scores(const AttentionHead& head, int64_t begin, int64_t rows, int64_t seen,
                          float* scores) {
  block_products(head.q + begin * head.q_stride, head.q_stride, head.k, head.kv_stride, rows, seen,
                 head.width, scores);
  if (head.bias == nullptr && head.softcap == 0) return head.scale;
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = scores + r * seen;
    const float* const bias = head.bias ? head.bias + (begin + r) * head.keys : nullptr;
    for_vectors(
        0, visible(head, begin + r), [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          const Vec score = get(row) * head.scale;
          put(row, bias ? score + get(bias) : tanh(score / head.softcap) * head.softcap);
        });
  }
  return 1;
}

static void attention(const AttentionHead& head, float* out, int64_t out_stride, float* log_sum) {
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const int64_t rows = head.queries - begin < kQueryBlock ? head.queries - begin : kQueryBlock;
    const int64_t seen = most_visible(head, begin, rows);
    float* const scores = scratch(Scratch::kScores, rows * seen);
    const float scale = block_scores(head, begin, rows, seen, scores);
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = scores + r * seen;
      const int64_t first = first_visible(head, begin + r), live = visible(head, begin + r);
      const float shift = row_max(row + first, live - first) * scale;
      const float total = row_exp(row + first, live - first, scale, shift);
      log_sum[begin + r] = shift + __builtin_logf(total);
      const Vec factor = splat(1.0f / total);
      for_vectors(
          first, live, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
            put(row, get(row) * factor);
          });
      for (int64_t j = 0; j < first; ++j) row[j] = 0;
      if (head.dropout_threshold) dropout(row, nullptr, row, live, dropout_row(head, begin + r));
      for (int64_t j = live; j < seen; ++j) row[j] = 0;
    }
    gemm({rows, head.width, seen, scores, seen, false, head.v, head.kv_stride, false,
          out + begin * out_stride, out_stride});
  }
}

static void attention_backward(const AttentionHead& head, const float* out, const float* dout,
                               int64_t out_stride, const float* log_sum, float* dq, int64_t dq_stride,
                               float* dk, float* dv, int64_t dkv_stride, bool add, float* dbias) {
  for (int64_t j = 0; j < head.keys && !add; ++j) {
    std::memset(dk + j * dkv_stride, 0, static_cast<size_t>(head.width) * sizeof(float));
    std::memset(dv + j * dkv_stride, 0, static_cast<size_t>(head.width) * sizeof(float));
  }
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const int64_t rows = head.queries - begin < kQueryBlock ? head.queries - begin : kQueryBlock;
    const int64_t seen = most_visible(head, begin, rows);
    const float* const q = head.q + begin * head.q_stride;
    const float* const dout_block = dout + begin * out_stride;
    float* const p = scratch(Scratch::kScores, rows * seen);
    float* const ds = scratch(Scratch::kScoresGradient, rows * seen);
    const float scale = block_scores(head, begin, rows, seen, p);
    block_products(dout_block, out_stride, head.v, head.kv_stride, rows, seen, head.width, ds);
    for (int64_t r = 0; r < rows; ++r) {
      float *const p_row = p + r * seen, *const ds_row = ds + r * seen;
      const int64_t first = first_visible(head, begin + r), live = visible(head, begin + r);
      const float* const o = out + (begin + r) * out_stride;
      const float* const d_o = dout_block + r * out_stride;
      Sum products;
      for_vectors(
          0, head.width, [&](int64_t j, auto get, auto) __attribute__((always_inline)) {
            products.add(j, get(o), get(d_o));
          });
      const Vec delta = splat(products.total());
      const Vec shift = splat(log_sum[begin + r]);
      const DropoutRow mask_row = dropout_row(head, begin + r);
      float* const dbias_row = dbias ? dbias + (begin + r) * head.keys : nullptr;
      for_vectors(
          first, live, [&](int64_t j, auto get, auto put) __attribute__((always_inline)) {
            const Vec score = get(p_row), probability = exp(multiply_add(score, splat(scale), -shift));
            Vec d = get(ds_row);
            if (head.dropout_threshold) {
              const Vec mask = dropout_mask(mask_row, j);
              put(p_row, probability * mask);
              d = multiply_add(d, mask, -delta);
            } else {
              put(p_row, probability);
              d -= delta;
            }
            Vec dscore = probability * d;
            if (dbias_row) put(dbias_row, dscore);
            if (head.softcap > 0) {
              const Vec part = score / head.softcap;  // tanh, of which the slope is 1 - tanh^2
              dscore *= 1 - part * part;
            }
            put(ds_row, dscore * head.scale);
          });
      for (int64_t j = 0; j < first; ++j) p_row[j] = ds_row[j] = 0;
      for (int64_t j = live; j < seen; ++j) p_row[j] = ds_row[j] = 0;
      for (int64_t j = 0; dbias_row && j < first; ++j) dbias_row[j] = 0;
      for (int64_t j = live; dbias_row && j < head.keys; ++j) dbias_row[j] = 0;
    }
    gemm({seen, head.width, rows, p, seen, true, dout_block, out_stride, false, dv, dkv_stride, true});
    gemm({rows, head.width, seen, ds, seen, false, head.k, head.kv_stride, false, dq + begin * dq_stride,
          dq_stride});
    gemm({seen, head.width, rows, ds, seen, true, q, head.q_stride, false, dk, dkv_stride, true});
  }
}

}  // namespace
}  // namespace pipeline::transformer
