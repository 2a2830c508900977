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

PIPELINE_INLINE int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
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

// Rows of b are too far apart for processors to see that they will be read.
constexpr int64_t kRowsAhead = 8;
template <class Element>
constexpr int64_t kLine = 64 / sizeof(Element);  // of the cache
template <int Count, class Element>
PIPELINE_INLINE void prefetch(const Element* from) {
#pragma GCC unroll 16
  for (int64_t i = 0; i < Count; i += kLine<Element>) __builtin_prefetch(from + i);
}

// panel: for each group of Width lines, step by step, the group's elements; a short group is filled with
// zeros.
template <int Width, class Element>
PIPELINE_INLINE void pack(const Lines<Element>& x, float* panel) {
  int64_t i = 0;
  if (!x.steps_first) {  // row by row of memory, however many groups it feeds
    const int64_t whole = x.lines / Width * Width;
    for (int64_t p = 0; p < x.depth; ++p) {
      const Element* const from = x.data + p * x.stride;
      for (i = 0; i < whole; i += Width) {
        prefetch<Width>(from + kRowsAhead * x.stride + i);
        for (int r = 0; r < Width; ++r) panel[i * x.depth + p * Width + r] = widened(from[i + r]);
      }
    }
    panel += whole * x.depth;
  }
  for (; i < x.lines; i += Width, panel += Width * x.depth) {
    const int64_t live = x.lines - i < Width ? x.lines - i : Width;
    if (live < Width) {
      for (int64_t p = 0; p < x.depth; ++p)
        for (int64_t r = 0; r < Width; ++r)
          panel[p * Width + r] =
              r < live ? widened(x.data[x.steps_first ? (i + r) * x.stride + p : p * x.stride + i + r]) : 0;
    } else {
      const Element* const from = x.data + i * x.stride;
      int64_t p = 0;
      for (; p + 4 <= x.depth; p += 4) {
        if (constexpr int64_t kAhead = 8 * kLine<Element>; p % kLine<Element> == 0) {
          const Element* const next =
              from + p + kAhead + (p + kAhead < x.depth ? 0 : Width * x.stride - x.depth);
          for (int r = 0; r < Width; ++r) __builtin_prefetch(next + r * x.stride);
        }
#pragma GCC unroll 16
        for (int r = 0; r < Width; r += 4) {  // the last quad may overlap the one before it
          const int line = r + 4 <= Width ? r : Width - 4;
          transpose_quads(from + line * x.stride + p, x.stride, panel + p * Width + line, Width);
        }
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

PIPELINE_INLINE Vec load_wide(const float* p) { return load(p); }
PIPELINE_INLINE Vec load_wide(const uint16_t* p) {
  typedef uint16_t NarrowVec __attribute__((vector_size(kWidth * 2)));
  NarrowVec narrow;
  std::memcpy(&narrow, p, sizeof narrow);
  const UintVec bits = __builtin_convertvector(narrow, UintVec) << 16;
  Vec wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}
PIPELINE_INLINE Vec load_wide(const int8_t* p) {
  typedef int8_t ByteVec __attribute__((vector_size(kWidth)));
  ByteVec bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, Vec);
}

// Values of a row of b that is in 8 or 4 bits; from a multiple of 64 on, and as many.
static void widen_row(const Gemm& g, int64_t row, int64_t begin, int64_t count, float* out) {
  const uint8_t* const data = g.coded_b + row * g.ldb;
  const quantization::Row coded(g.coded_form, g.coded_columns, data);
  if (g.coded_form == quantization::Form::kInt8) {
    const Vec scale = splat(coded.scale());
    for (int64_t i = 0; i < count; i += kWidth)
      store(out + i, load_wide(reinterpret_cast<const int8_t*>(data) + begin + i) * scale);
    return;
  }
  constexpr int64_t kAtOnce = 16;
  float sizes[kAtOnce];
  const uint8_t* codes = data + begin / 2;
  for (int64_t i = 0; i < count; i += quantization::kBlock) {
    const int64_t block = i / quantization::kBlock, blocks = count / quantization::kBlock;
    if (block % kAtOnce == 0)
      coded.sizes(begin / quantization::kBlock + block, least(blocks - block, kAtOnce), sizes);
    const Table levels = table_of(quantization::kNf4Levels, sizes[block % kAtOnce]);
    for (int64_t j = 0; j < quantization::kBlock; j += kWidth, codes += kWidth / 2)
      store(out + i + j, look_up(levels, codes));
  }
}

// As pack(), of rows in 8 or 4 bits, of which a few are widened at a time.
static void pack_coded(const Gemm& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns, float* panel) {
  const int64_t first = g.b_transposed ? p0 : g.coded_first + j0;
  const int64_t begin = first / quantization::kBlock * quantization::kBlock;
  const int64_t count = round_up(first + (g.b_transposed ? depth : columns), quantization::kBlock) - begin;
  const int64_t stride = count + 16;  // not a power of two: lines would share a set of the cache
  float* const lines = scratch(Scratch::kWidened, kTileColumns * stride);
  if (!g.b_transposed) {
    for (int64_t p = 0; p < depth; ++p) {
      widen_row(g, p0 + p, begin, count, lines);
      for (int64_t j = 0; j < columns; j += kTileColumns)
        pack<kTileColumns>(
            Lines<float>{lines + first - begin + j, stride, false, least(columns - j, kTileColumns), 1},
            panel + j * depth + p * kTileColumns);
    }
    return;
  }
  for (int64_t j = 0; j < columns; j += kTileColumns, panel += kTileColumns * depth) {
    const int64_t live = least(columns - j, kTileColumns);
    for (int64_t r = 0; r < live; ++r) widen_row(g, j0 + j + r, begin, count, lines + r * stride);
    pack<kTileColumns>(Lines<float>{lines + first - begin, stride, true, live, depth}, panel);
  }
}

static void pack_b(const Gemm& g, int64_t p0, int64_t depth, int64_t j0, int64_t columns, float* panel) {
  if (g.coded_b) return pack_coded(g, p0, depth, j0, columns, panel);
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
      acc[r][0] = multiply_add(x, b0, acc[r][0]);
      acc[r][1] = multiply_add(x, b1, acc[r][1]);
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

// Writes the tile at (i, j) of c from its sums over one block of k; `first` and `last` block.
template <int Rows, int Vectors>
PIPELINE_INLINE void finish(const Gemm& g, int64_t i, int64_t j, int64_t rows, int64_t columns,
                            const Vec (&acc)[Rows][Vectors], bool first, bool last) {
  const bool add_c = g.accumulate || !first;
  const float* bias = first ? g.bias : nullptr;
  const float* addend = first ? g.addend : nullptr;
  float* gelu = last && g.form == Gelu::kTanh ? g.gelu : nullptr;
  if (rows == Rows && columns == Vectors * kWidth) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const int64_t at = (i + r) * g.ldc + j;
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) {
        Vec c = acc[r][v];
        if (bias) c += load(bias + j + v * kWidth);
        if (addend) c += load(addend + at + v * kWidth);
        if (add_c) c += load(g.c + at + v * kWidth);
        store(g.c + at + v * kWidth, c);
        if (gelu) store(gelu + at + v * kWidth, gelu_of<Gelu::kTanh>(c));
      }
    }
    return;
  }
  float lanes[Rows][Vectors * kWidth];
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) store(lanes[r] + v * kWidth, acc[r][v]);
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

static void gelu_of(const Gemm& g, int64_t i, int64_t j, int64_t rows, int64_t columns) {
  g.form == Gelu::kExact ? gelu_of_tile<Gelu::kExact>(g, i, j, rows, columns)
                         : gelu_of_tile<Gelu::kQuick>(g, i, j, rows, columns);
}

// Calls f with the least number of rows, of those that there are kernels for, that `rows` fit in.
template <class F>
PIPELINE_INLINE void for_rows(int64_t rows, const F& f) {
  if (rows == 1) return f.template operator()<1>();
  if (rows == 2) return f.template operator()<2>();
  if (rows <= 4) return f.template operator()<4>();
#if PIPELINE_SIMD_WIDTH == 16
  if (rows <= 7) return f.template operator()<7>();
#endif
  f.template operator()<kTileRows>();
}

// The tile at (i, j) of c from packed panels.
template <int Rows>
static void tile(const Gemm& g, int64_t i, int64_t j, int64_t rows, int64_t columns, int64_t depth,
                 const float* a, const float* b, bool first, bool last) {
  Vec acc[Rows][2];
  multiply<Rows>(depth, a, b, acc);
  finish<Rows, 2>(g, i, j, rows, columns, acc, first, last);
}

// All rows of c, of which there are few, and Vectors of its columns, over one block of k. They read b where
// it lies, as packing it would cost more than the product; the sums are those of tile(), term by term.
template <int Rows, int Vectors, class Element>
static void multiply_in_place(const Gemm& g, const Element* b, int64_t j, int64_t p0, int64_t depth) {
  const float* a[Rows];
  for (int r = 0; r < Rows; ++r) a[r] = g.a + (r < g.m ? r : g.m - 1) * g.lda;
  Vec acc[Rows][Vectors];
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) acc[r][v] = Vec{};
  const Element* from = b + p0 * g.ldb + j;
  for (int64_t p = p0; p < p0 + depth; ++p, from += g.ldb) {
    prefetch<Vectors * kWidth>(from + kRowsAhead * g.ldb);
    if constexpr (Rows < Vectors) {  // the fewer of a's and b's values stay in registers
      Vec x[Rows];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) x[r] = splat(a[r][p]);
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) {
        const Vec y = load_wide(from + v * kWidth);
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) acc[r][v] = multiply_add(x[r], y, acc[r][v]);
      }
    } else {
      Vec y[Vectors];
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) y[v] = load_wide(from + v * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Vec x = splat(a[r][p]);
#pragma GCC unroll 16
        for (int v = 0; v < Vectors; ++v) acc[r][v] = multiply_add(x, y[v], acc[r][v]);
      }
    }
  }
  finish<Rows, Vectors>(g, 0, j, g.m, Vectors * kWidth, acc, p0 == 0, p0 + depth == g.k);
}

template <int Rows, class Element>
static void gemm_in_place(const Gemm& g, const Element* b) {
  constexpr int kMost = 2 * kTileRows / Rows < 12 ? 2 * kTileRows / Rows : 12, kSome = kMost < 4 ? 1 : 4;
  const int64_t deepest = block_depth(g.k);
  int64_t j = 0;
  const auto columns_of = [&]<int Vectors>() {
    for (; g.n - j >= Vectors * kWidth; j += Vectors * kWidth)
      for (int64_t p0 = 0; p0 < g.k; p0 += deepest)
        multiply_in_place<Rows, Vectors>(g, b, j, p0, least(g.k - p0, deepest));
  };
  columns_of.template operator()<kMost>();
  columns_of.template operator()<kSome>();
  columns_of.template operator()<1>();
  if (g.gelu && g.form != Gelu::kTanh) gelu_of(g, 0, 0, g.m, g.n);
}

// `rows` rows of c from i0 on and `columns` columns from j0 on, over one block of k, from packed panels.
static void multiply_panels(const Gemm& g, int64_t i0, int64_t rows, int64_t j0, int64_t columns, int64_t p0,
                            int64_t depth, const float* packed_a, const float* packed_b) {
  const bool first = p0 == 0, last = p0 + depth == g.k;
  for (int64_t j = 0; j < columns; j += kTileColumns) {
    const int64_t live_columns = least(columns - j, kTileColumns);
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const int64_t live_rows = least(rows - i, kTileRows);
      for_rows(live_rows, [&]<int Rows>() {
        tile<Rows>(g, i0 + i, j0 + j, live_rows, live_columns, depth, packed_a + i * depth,
                   packed_b + j * depth, first, last);
      });
      if (g.gelu && g.form != Gelu::kTanh && last) gelu_of(g, i0 + i, j0 + j, live_rows, live_columns);
    }
  }
}

// The rows of one block of a, which need a panel of b once: one that stays in the second level of the cache,
// or in the first where its columns are far apart in memory.
static void gemm_of_one_block(const Gemm& g) {
  const int64_t deepest = block_depth(g.k);
  const int64_t widest = g.b_transposed ? kTileColumns : 8 * kTileColumns;
  float* const packed_b = scratch(Scratch::kPackedB, deepest * widest);
  float* const packed_a = scratch(Scratch::kPackedA, deepest * round_up(g.m, kTileRows));
  for (int64_t p0 = 0; p0 < g.k; p0 += deepest) {
    const int64_t depth = least(g.k - p0, deepest);
    pack_a(g, 0, g.m, p0, depth, packed_a);
    for (int64_t j0 = 0; j0 < g.n; j0 += widest) {
      const int64_t columns = least(g.n - j0, widest);
      pack_b(g, p0, depth, j0, columns, packed_b);
      multiply_panels(g, 0, g.m, j0, columns, p0, depth, packed_a, packed_b);
    }
  }
}

static void gemm_of_many_rows(const Gemm& g) {
  const int64_t deepest = block_depth(g.k);
  const int64_t widest = round_up(least(g.n, kBlockN), kTileColumns);
  float* const packed_b = scratch(Scratch::kPackedB, deepest * widest);
  float* const packed_a = scratch(Scratch::kPackedA, deepest * kBlockM);
  for (int64_t j0 = 0; j0 < g.n; j0 += kBlockN) {
    const int64_t columns = least(g.n - j0, kBlockN);
    for (int64_t p0 = 0; p0 < g.k; p0 += deepest) {
      const int64_t depth = least(g.k - p0, deepest);
      pack_b(g, p0, depth, j0, columns, packed_b);
      for (int64_t i0 = 0; i0 < g.m; i0 += kBlockM) {
        const int64_t rows = least(g.m - i0, kBlockM);
        pack_a(g, i0, rows, p0, depth, packed_a);
        multiply_panels(g, i0, rows, j0, columns, p0, depth, packed_a, packed_b);
      }
    }
  }
}

static void gemm(const Gemm& g) {
  if (g.m <= kTileRows && !g.a_transposed && !g.b_transposed && g.n % kWidth == 0 && !g.coded_b) {
    for_rows(g.m, [&]<int Rows>() {
      g.narrow_b ? gemm_in_place<Rows>(g, g.narrow_b) : gemm_in_place<Rows>(g, g.b);
    });
  } else {
    g.m <= kBlockM ? gemm_of_one_block(g) : gemm_of_many_rows(g);
  }
}

}  // namespace
}  // namespace pipeline::transformer
