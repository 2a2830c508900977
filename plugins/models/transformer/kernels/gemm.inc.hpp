#pragma once

// Matrix product by packed panels (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication"): a panel of b stays in the outer cache, a block of a in the second level, and the inner
// loop keeps a tile of c in registers.

#include "gelu.inc.hpp"
#include "kernels.hpp"
#include "simd.hpp"

namespace pipeline::transformer {
namespace {

#if PIPELINE_SIMD_WIDTH == 16
constexpr int kTileRows = 14;  // 14 x 2 accumulators, 2 vectors of b, 1 broadcast of a: 31 of 32 registers
#else
constexpr int kTileRows = 6;  // 6 x 2 + 2 + 1 of 16 registers
#endif
constexpr int kTileColumns = 2 * kWidth;
constexpr int64_t kDeepestBlock = 512;  // of k
constexpr int64_t kBlockM = 16 * kTileRows;
constexpr int64_t kBlockN = 96 * kTileColumns;

PIPELINE_INLINE int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

// k in equal blocks: a sliver at the end would read and write all of c for little.
PIPELINE_INLINE int64_t block_depth(int64_t k) {
  const int64_t blocks = (k + kDeepestBlock - 1) / kDeepestBlock;
  return (k + blocks - 1) / blocks;
}

// `lines` rows of a or columns of b, `depth` steps of k of each. Two steps of a line, or where `steps_first`
// two lines, are next to each other in memory; what is not is `stride` apart.
template <class Element>
struct Lines {
  const Element* data;
  int64_t stride;
  bool steps_first;
  int64_t lines, depth;
};

typedef float Quad __attribute__((vector_size(16)));
typedef uint32_t UintQuad __attribute__((vector_size(16)));
typedef uint16_t NarrowQuad __attribute__((vector_size(8)));

PIPELINE_INLINE float widened(float x) { return x; }
PIPELINE_INLINE float widened(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
PIPELINE_INLINE void load_quad(Quad& to, const float* from) { std::memcpy(&to, from, sizeof to); }
PIPELINE_INLINE void load_quad(Quad& to, const uint16_t* from) {
  NarrowQuad narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  const UintQuad bits = __builtin_convertvector(narrow, UintQuad) << 16;
  std::memcpy(&to, &bits, sizeof to);
}

// to[4 x 4] = from[4 x 4] transposed; rows may be at any place.
template <class Element>
PIPELINE_INLINE void transpose_quads(const Element* from, int64_t from_stride, float* to, int64_t to_stride) {
  Quad in[4];
  for (int r = 0; r < 4; ++r) load_quad(in[r], from + r * from_stride);
  const Quad low01 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
  const Quad low23 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
  const Quad high23 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  const Quad out[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                       __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                       __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                       __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int r = 0; r < 4; ++r) std::memcpy(to + r * to_stride, &out[r], sizeof out[r]);
}

// panel: for each group of Width lines, step by step, the group's elements; a short group is filled with
// zeros.
template <int Width, class Element>
PIPELINE_INLINE void pack(const Lines<Element>& x, float* panel) {
  for (int64_t i = 0; i < x.lines; i += Width, panel += Width * x.depth) {
    const int64_t live = x.lines - i < Width ? x.lines - i : Width;
    if (live < Width) {
      for (int64_t p = 0; p < x.depth; ++p)
        for (int64_t r = 0; r < Width; ++r)
          panel[p * Width + r] =
              r < live ? widened(x.data[x.steps_first ? (i + r) * x.stride + p : p * x.stride + i + r]) : 0;
    } else if (!x.steps_first) {
      for (int64_t p = 0; p < x.depth; ++p)
        for (int r = 0; r < Width; ++r) panel[p * Width + r] = widened(x.data[p * x.stride + i + r]);
    } else {
      const Element* const from = x.data + i * x.stride;
      int64_t p = 0;
      for (; p + 4 <= x.depth; p += 4)
#pragma GCC unroll 16
        for (int r = 0; r < Width; r += 4) {  // the last quad may overlap the one before it
          const int line = r + 4 <= Width ? r : Width - 4;
          transpose_quads(from + line * x.stride + p, x.stride, panel + p * Width + line, Width);
        }
      for (; p < x.depth; ++p)
        for (int r = 0; r < Width; ++r) panel[p * Width + r] = widened(from[r * x.stride + p]);
    }
  }
}

static void pack_a(const Gemm& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth, float* panel) {
  const float* const data = g.a_transposed ? g.a + p0 * g.lda + i0 : g.a + i0 * g.lda + p0;
  pack<kTileRows>(Lines<float>{data, g.lda, !g.a_transposed, rows, depth}, panel);
}

static void pack_b(const Gemm& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns, float* panel) {
  const int64_t first = g.b_transposed ? j0 * g.ldb + p0 : p0 * g.ldb + j0;
  if (g.narrow_b) {
    pack<kTileColumns>(Lines<uint16_t>{g.narrow_b + first, g.ldb, g.b_transposed, columns, depth}, panel);
  } else {
    pack<kTileColumns>(Lines<float>{g.b + first, g.ldb, g.b_transposed, columns, depth}, panel);
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

// The exact or quick gelu of a finished tile of c, which is in the nearest cache.
template <Gelu Form>
static void gelu_of_tile(const Gemm& g, int64_t i, int64_t j, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t s = 0; s < columns; s += kWidth) {
      const int64_t at = (i + r) * g.ldc + j + s;
      const int64_t live = columns - s;
      if (live >= kWidth) {
        store(g.gelu + at, gelu_of<Form>(load(g.c + at)));
      } else {
        store_part(g.gelu + at, gelu_of<Form>(load_part(g.c + at, live)), live);
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
  float* gelu = last && g.form == Gelu::kTanh ? g.gelu : nullptr;
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
      if (gelu)
        store(gelu + at, gelu_of<Gelu::kTanh>(c0)), store(gelu + at + kWidth, gelu_of<Gelu::kTanh>(c1));
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
      if (gelu) store_part(gelu + at, gelu_of<Gelu::kTanh>(c), live);
    }
  }
}

static void gemm(const Gemm& g) {
  const int64_t deepest = block_depth(g.k);
  const int64_t widest = round_up(g.n < kBlockN ? g.n : kBlockN, kTileColumns);
  const int64_t tallest = round_up(g.m < kBlockM ? g.m : kBlockM, kTileRows);
  const auto finish = g.form == Gelu::kExact ? gelu_of_tile<Gelu::kExact> : gelu_of_tile<Gelu::kQuick>;
  float* const packed_b = scratch(Scratch::kPackedB, deepest * widest);
  float* const packed_a = scratch(Scratch::kPackedA, deepest * tallest);
  for (int64_t j0 = 0; j0 < g.n; j0 += kBlockN) {
    const int64_t columns = g.n - j0 < kBlockN ? g.n - j0 : kBlockN;
    for (int64_t p0 = 0; p0 < g.k; p0 += deepest) {
      const int64_t depth = g.k - p0 < deepest ? g.k - p0 : deepest;
      pack_b(g, p0, depth, j0, columns, packed_b);
      for (int64_t i0 = 0; i0 < g.m; i0 += kBlockM) {
        const int64_t rows = g.m - i0 < kBlockM ? g.m - i0 : kBlockM;
        pack_a(g, i0, rows, p0, depth, packed_a);
        for (int64_t j = 0; j < columns; j += kTileColumns) {
          for (int64_t i = 0; i < rows; i += kTileRows) {
            tile(g, i0 + i, j0 + j, rows - i < kTileRows ? rows - i : kTileRows,
                 columns - j < kTileColumns ? columns - j : kTileColumns, depth, packed_a + i * depth,
                 packed_b + j * depth, p0 == 0, p0 + depth == g.k);
            if (g.gelu && g.form != Gelu::kTanh && p0 + depth == g.k)
              finish(g, i0 + i, j0 + j, rows - i < kTileRows ? rows - i : kTileRows,
                     columns - j < kTileColumns ? columns - j : kTileColumns);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipeline::transformer
