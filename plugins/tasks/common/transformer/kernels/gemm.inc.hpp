#pragma once

// Matrix product by packed panels (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication"): a panel of b stays in the outer cache, a block of a in the second level, and the inner
// loop keeps a tile of c in registers.

#include "gelu.inc.hpp"
#include "kernels.hpp"
#include "scratch.hpp"
#include "simd.hpp"

namespace pipeline::transformer {
namespace {

#if PIPELINE_SIMD_WIDTH == 16
constexpr int kTileRows = 14;  // 14 x 2 accumulators, 2 vectors of b, 1 broadcast of a: 31 of 32 registers
#else
constexpr int kTileRows = 6;  // 6 x 2 + 2 + 1 of 16 registers
#endif
constexpr int kTileColumns = 2 * kWidth;
constexpr int64_t kBlockK = 384;
constexpr int64_t kBlockM = 16 * kTileRows;
constexpr int64_t kBlockN = 96 * kTileColumns;

PIPELINE_INLINE int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

// panel: for each group of kTileRows rows of a, k by k, the group's column; short groups are filled with
// zeros.
static void pack_a(const Gemm& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth, float* panel) {
  for (int64_t i = 0; i < rows; i += kTileRows, panel += kTileRows * depth) {
    const int64_t live = rows - i < kTileRows ? rows - i : kTileRows;
    if (g.a_transposed) {
      for (int64_t p = 0; p < depth; ++p) {
        const float* from = g.a + (p0 + p) * g.lda + i0 + i;
        float* to = panel + p * kTileRows;
        if (live == kTileRows) {
          std::memcpy(to, from, kTileRows * sizeof(float));
        } else {
          for (int64_t r = 0; r < kTileRows; ++r) to[r] = r < live ? from[r] : 0;
        }
      }
    } else {
      const float* from = g.a + (i0 + i) * g.lda + p0;
      for (int64_t r = 0; r < kTileRows; ++r) {
        if (r < live) {
          for (int64_t p = 0; p < depth; ++p) panel[p * kTileRows + r] = from[r * g.lda + p];
        } else {
          for (int64_t p = 0; p < depth; ++p) panel[p * kTileRows + r] = 0;
        }
      }
    }
  }
}

// panel: for each group of kTileColumns columns of b, k by k, the group's row.
static void pack_b(const Gemm& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns, float* panel) {
  for (int64_t j = 0; j < columns; j += kTileColumns, panel += kTileColumns * depth) {
    const int64_t live = columns - j < kTileColumns ? columns - j : kTileColumns;
    if (g.b_transposed) {
      const float* from = g.b + (j0 + j) * g.ldb + p0;
      // Blocks of kWidth steps of k, so that the cache lines written stay in the first level.
      for (int64_t p = 0; p < depth; p += kWidth) {
        const int64_t end = depth - p < kWidth ? depth : p + kWidth;
        for (int64_t c = 0; c < kTileColumns; ++c) {
          float* to = panel + c;
          if (c < live) {
            const float* row = from + c * g.ldb;
            for (int64_t q = p; q < end; ++q) to[q * kTileColumns] = row[q];
          } else {
            for (int64_t q = p; q < end; ++q) to[q * kTileColumns] = 0;
          }
        }
      }
    } else {
      for (int64_t p = 0; p < depth; ++p) {
        const float* from = g.b + (p0 + p) * g.ldb + j0 + j;
        float* to = panel + p * kTileColumns;
        if (live == kTileColumns) {
          std::memcpy(to, from, kTileColumns * sizeof(float));
        } else {
          for (int64_t c = 0; c < kTileColumns; ++c) to[c] = c < live ? from[c] : 0;
        }
      }
    }
  }
}

// One tile: acc = a panel (depth, kTileRows) times b panel (depth, kTileColumns).
template <int Rows>
PIPELINE_INLINE void multiply(int64_t depth, const float* a, const float* b, Vec (&acc)[Rows][2]) {
  for (int r = 0; r < Rows; ++r) acc[r][0] = acc[r][1] = Vec{};
  for (int64_t p = 0; p < depth; ++p) {
    const Vec b0 = load(b), b1 = load(b + kWidth);
    b += kTileColumns;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vec x = splat(a[r]);
      acc[r][0] += x * b0;
      acc[r][1] += x * b1;
    }
    a += kTileRows;
  }
}

// exact_gelu of a finished tile of c, which is in the nearest cache.
static void exact_gelu_of_tile(const Gemm& g, int64_t i, int64_t j, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t s = 0; s < columns; s += kWidth) {
      const int64_t at = (i + r) * g.ldc + j + s;
      const int64_t live = columns - s;
      if (live >= kWidth) {
        store(g.exact_gelu + at, exact_gelu_of(load(g.c + at)).value);
      } else {
        store_part(g.exact_gelu + at, exact_gelu_of(load_part(g.c + at, live)).value, live);
      }
    }
  }
}

// The tile at (i, j) of c; `first` and `last` block of k.
static void tile(const Gemm& g, int64_t i, int64_t j, int64_t rows, int64_t columns, int64_t depth,
                 const float* a, const float* b, bool first, bool last) {
  Vec acc[kTileRows][2];
  multiply<kTileRows>(depth, a, b, acc);
  const bool add_c = g.accumulate || !first;
  const float* bias = first ? g.bias : nullptr;
  const float* addend = first ? g.addend : nullptr;
  float* gelu = last ? g.gelu : nullptr;
  if (rows == kTileRows && columns == kTileColumns) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const int64_t at = (i + r) * g.ldc + j;
      Vec c0 = acc[r][0], c1 = acc[r][1];
      if (bias) c0 += load(bias + j), c1 += load(bias + j + kWidth);
      if (addend) c0 += load(addend + at), c1 += load(addend + at + kWidth);
      if (add_c) c0 += load(g.c + at), c1 += load(g.c + at + kWidth);
      store(g.c + at, c0);
      store(g.c + at + kWidth, c1);
      if (gelu) store(gelu + at, gelu_of(c0)), store(gelu + at + kWidth, gelu_of(c1));
    }
    return;
  }
  float lanes[kTileRows][kTileColumns];
  for (int r = 0; r < kTileRows; ++r) store(lanes[r], acc[r][0]), store(lanes[r] + kWidth, acc[r][1]);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t s = 0; s < columns; s += kWidth) {
      const int64_t at = (i + r) * g.ldc + j + s;
      const int64_t live = columns - s < kWidth ? columns - s : kWidth;
      Vec c = load(lanes[r] + s);
      if (bias) c += load_part(bias + j + s, live);
      if (addend) c += load_part(addend + at, live);
      if (add_c) c += load_part(g.c + at, live);
      store_part(g.c + at, c, live);
      if (gelu) store_part(gelu + at, gelu_of(c), live);
    }
  }
}

static void gemm(const Gemm& g) {
  const int64_t deepest = g.k < kBlockK ? g.k : kBlockK;
  const int64_t widest = round_up(g.n < kBlockN ? g.n : kBlockN, kTileColumns);
  const int64_t tallest = round_up(g.m < kBlockM ? g.m : kBlockM, kTileRows);
  float* const packed_b = scratch(Scratch::kPackedB, deepest * widest);
  float* const packed_a = scratch(Scratch::kPackedA, deepest * tallest);
  for (int64_t j0 = 0; j0 < g.n; j0 += kBlockN) {
    const int64_t columns = g.n - j0 < kBlockN ? g.n - j0 : kBlockN;
    for (int64_t p0 = 0; p0 < g.k; p0 += kBlockK) {
      const int64_t depth = g.k - p0 < kBlockK ? g.k - p0 : kBlockK;
      pack_b(g, p0, depth, j0, columns, packed_b);
      for (int64_t i0 = 0; i0 < g.m; i0 += kBlockM) {
        const int64_t rows = g.m - i0 < kBlockM ? g.m - i0 : kBlockM;
        pack_a(g, i0, rows, p0, depth, packed_a);
        for (int64_t j = 0; j < columns; j += kTileColumns) {
          for (int64_t i = 0; i < rows; i += kTileRows) {
            tile(g, i0 + i, j0 + j, rows - i < kTileRows ? rows - i : kTileRows,
                 columns - j < kTileColumns ? columns - j : kTileColumns, depth, packed_a + i * depth,
                 packed_b + j * depth, p0 == 0, p0 + depth == g.k);
            if (g.exact_gelu && p0 + depth == g.k)
              exact_gelu_of_tile(g, i0 + i, j0 + j, rows - i < kTileRows ? rows - i : kTileRows,
                                 columns - j < kTileColumns ? columns - j : kTileColumns);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipeline::transformer
