#pragma once

// fp32 kernels for CPUs, compiled once per instruction set and chosen when first used. Raw pointers, serial,
// row-major: the callers own shapes, memory and threads. Every result element is computed in an order that
// depends on its own row and the sizes only, so the bits do not change with the number of threads or with the
// other rows of a batch.

#include <cstdint>

#include "forms.hpp"
#include "quantization/matrix_form.hpp"

namespace pipeline::transformer {

// c (m, n) = a (m, k) b (k, n) [+ c] [+ bias (n)] [+ addend (m, n)]. A transposed operand is stored (k, m) or
// (n, k).
struct Gemm {
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  bool a_transposed;
  const float* b;  // or null: narrow_b or coded_b
  int64_t ldb;
  bool b_transposed;
  float* c;
  int64_t ldc;
  bool accumulate = false;        // add to what is in c
  const float* bias = nullptr;    // (n)
  const float* addend = nullptr;  // (m, n), row stride ldc; may be c's own values only through `accumulate`
  float* gelu = nullptr;          // (m, n), row stride ldc: also write gelu(c)
  Gelu form = Gelu::kTanh;
  const uint16_t* narrow_b = nullptr;  // b in bfloat16, the upper halves of float32
  // Rows of b in 8 or 4 bits, ldb bytes apart, of coded_columns; of those b begins at coded_first.
  const uint8_t* coded_b = nullptr;
  quantization::Form coded_form = quantization::Form::kNf4;
  int64_t coded_columns = 0, coded_first = 0;
};

// A row of dropout: element j is kept when hash(key, j) >= threshold, and then multiplied by scale.
struct DropoutRow {
  uint64_t key;
  uint32_t threshold;
  float scale;
};

// Causal, local or full attention of one head over one sequence; rows of q, k, v, out are `stride` floats
// apart.
struct AttentionHead {
  int64_t queries, keys, width;  // width: the head's channels
  const float *q, *k, *v;
  int64_t q_stride, kv_stride;
  const int64_t* positions;  // (queries) position of each query among the keys, of which it sees those up
                             // to there and `ahead` more. Null: sees all
  int64_t ahead;
  int64_t window;  // with positions: of those up to there it sees the last so many; 0: all
  float scale;
  float softcap;         // scaled scores s become softcap * tanh(s / softcap); 0: they stay, as with a bias
  const float* bias;     // (queries, keys) contiguous, added to the scaled scores; null: none
  uint64_t dropout_key;  // row r uses dropout_row_key(dropout_key, r)
  uint32_t dropout_threshold;
  float dropout_scale;
};

// For a row of logits: the negative log likelihood of its target, and what a loss's terms add to it.
struct RowLoss {
  float cross_entropy, added;
};

struct Kernels {
  const char* name;  // "avx512", "avx2", "sse2"

  // Serial; packs its operands into scratch memory of the calling thread. One fixed order of sums per element
  // of c.
  void (*gemm)(const Gemm& task);
  int64_t gemm_rows, gemm_columns;  // split work at multiples of these to keep the tiles full

  // y = (x - mean) * rstd * weight + bias per row; mean, rstd: (rows). Where mean, bias and dbias are null,
  // RMS norm, x * rstd * weight, here and in the next three.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float* y, float* mean,
                     float* rstd, int64_t rows, int64_t columns, float eps);
  void (*layer_norm_again)(const float* x, const float* weight, const float* bias, const float* mean,
                           const float* rstd, float* y, int64_t rows, int64_t columns);
  // dx = d(layer norm)/dx dy [+ residual (rows, columns)]
  void (*layer_norm_backward)(const float* dy, const float* x, const float* weight, const float* mean,
                              const float* rstd, const float* residual, float* dx, int64_t rows,
                              int64_t columns);
  // For columns [begin, end), rows in order: dweight = sum dy * (x - mean) * rstd, dbias = sum dy.
  void (*layer_norm_backward_parameters)(const float* dy, const float* x, const float* mean,
                                         const float* rstd, float* dweight, float* dbias, int64_t rows,
                                         int64_t columns, int64_t begin, int64_t end);

  // kTanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); kExact: 0.5 x (1 + erf(x / sqrt(2)))
  void (*gelu)(Gelu form, const float* x, float* y, int64_t count);
  // y = gelu(x); d = d * gelu'(x) in place.
  void (*gelu_backward)(Gelu form, const float* x, float* y, float* d, int64_t count);

  // h = gate(g) u; a row of `gated` is g and then u, h: (rows, inner).
  void (*gated_unit)(Gate gate, const float* gated, float* h, int64_t rows, int64_t inner);
  // dgated from dh, which becomes h.
  void (*gated_unit_backward)(Gate gate, const float* gated, float* dh, float* dgated, int64_t rows,
                              int64_t inner);

  void (*column_sum)(const float* x, float* sum, int64_t rows, int64_t columns, int64_t begin, int64_t end);
  void (*add)(const float* x, float* y, int64_t count);  // y += x

  // y = x * mask [+ residual]; x and y may be the same.
  void (*dropout)(const float* x, const float* residual, float* y, int64_t columns, DropoutRow row);

  // The loss of `target` under softmax(logits). With `gradient` the row becomes scale times the gradient of
  // the whole: without terms, softmax - one hot.
  RowLoss (*cross_entropy_row)(float* logits, int64_t columns, int64_t target, bool gradient, float scale,
                               const LossTerms& terms);

  // out: (queries, width) row stride q_stride's counterpart out_stride; log_sum: (queries) of exp(scaled
  // scores).
  void (*attention)(const AttentionHead& head, float* out, int64_t out_stride, float* log_sum);
  // dq, dk, dv: written with dq_stride and dkv_stride; to dk and dv is added where `add`, as for the next
  // head of those that share keys. dbias: (queries, keys) or null.
  void (*attention_backward)(const AttentionHead& head, const float* out, const float* dout,
                             int64_t out_stride, const float* log_sum, float* dq, int64_t dq_stride,
                             float* dk, float* dv, int64_t dkv_stride, bool add, float* dbias);

  // out[i * stride + k] = exp(-factor (x[i] - centers[k])^2): radial basis functions of `count` distances.
  void (*gaussians)(const float* x, int64_t count, const float* centers, int64_t functions, float factor,
                    float* out, int64_t stride);
};

// The widest set that this CPU has and that ATEN_CPU_CAPABILITY (default, avx2), which LibTorch reads,
// allows. AVX2 and AVX-512 have the same bits: each element of a result is the same sum, and sums of rows are
// in sixteen parts (Sum in simd.hpp). SSE2 has no fused multiply-add.
const Kernels& kernels();
// The kernels of this name, for tests; null when this CPU does not have the instructions.
const Kernels* kernels_named(const char* name);

// Static: a shared inline function would be the linker's pick among instruction sets.
static inline uint64_t dropout_row_key(uint64_t key, uint64_t row) {  // splitmix64
  uint64_t z = key + (row + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

enum class Scratch { kPackedA, kPackedB, kWidened, kScores, kScoresGradient, kCount };

// At least `count` floats of the calling thread's own memory, aligned to 64 bytes, valid until its next call
// for the same purpose. Kept between calls: fresh memory from the kernel costs a page fault per 4 KiB, more
// than the work done in it.
float* scratch(Scratch purpose, int64_t count);

}  // namespace pipeline::transformer
