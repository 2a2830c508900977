#pragma once

// Vectors as wide as the instruction set that this file is compiled for. Include it only from the sources
// that are compiled once per instruction set: everything here has internal linkage, so that no wide
// instruction leaks into code that runs on every CPU.

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define PIPELINE_SIMD_WIDTH 16
#elif defined(__AVX2__)
#define PIPELINE_SIMD_WIDTH 8
#else
#define PIPELINE_SIMD_WIDTH 4
#endif

#define PIPELINE_INLINE static inline __attribute__((always_inline))

namespace pipeline::transformer {
namespace {

constexpr int kWidth = PIPELINE_SIMD_WIDTH;
typedef float Vec __attribute__((vector_size(kWidth * 4)));
typedef int32_t IntVec __attribute__((vector_size(kWidth * 4)));
typedef uint32_t UintVec __attribute__((vector_size(kWidth * 4)));

PIPELINE_INLINE Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

PIPELINE_INLINE void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

// x - 0 is x for every x, so compilers make this one broadcast; 0 + x is not (minus zero).
PIPELINE_INLINE Vec splat(float x) { return x - Vec{}; }

// The first n < kWidth lanes; the others are `fill`, or stay as they are.
PIPELINE_INLINE Vec load_part(const float* p, int64_t n, float fill = 0) {
  float lanes[kWidth];
  for (int i = 0; i < kWidth; ++i) lanes[i] = i < n ? p[i] : fill;
  return load(lanes);
}

PIPELINE_INLINE void store_part(float* p, Vec v, int64_t n) {
  float lanes[kWidth];
  store(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}

// a b + c, rounded once where the instruction set can: kernels whose sums must have the same bits do not
// leave that to the compiler.
PIPELINE_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if PIPELINE_SIMD_WIDTH == 16
  return _mm512_fmadd_ps(a, b, c);
#elif PIPELINE_SIMD_WIDTH == 8
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// Sixteen values to look up by codes of 4 bits.
struct Table {
#if PIPELINE_SIMD_WIDTH == 16
  Vec all;
#elif PIPELINE_SIMD_WIDTH == 8
  Vec low, high;
#else
  float all[16];
#endif
};
PIPELINE_INLINE Table table_of(const float* values, float factor) {
#if PIPELINE_SIMD_WIDTH == 16
  return {load(values) * factor};
#elif PIPELINE_SIMD_WIDTH == 8
  return {load(values) * factor, load(values + 8) * factor};
#else
  Table table;
  for (int i = 0; i < 16; ++i) table.all[i] = values[i] * factor;
  return table;
#endif
}
// The values of kWidth codes, the first of two in a byte's upper half.
PIPELINE_INLINE Vec look_up(const Table& table, const uint8_t* codes) {
#if PIPELINE_SIMD_WIDTH >= 8
  const auto interleaved = [](__m128i pairs) {
    const __m128i half = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(_mm_srli_epi16(pairs, 4), half), _mm_and_si128(pairs, half));
  };
#endif
#if PIPELINE_SIMD_WIDTH == 16
  const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  const __mmask16 lanes = 0xffff;  // without a mask GCC 12 warns of a value that nobody reads
  return _mm512_maskz_permutexvar_ps(lanes, _mm512_maskz_cvtepu8_epi32(lanes, interleaved(pairs)), table.all);
#elif PIPELINE_SIMD_WIDTH == 8
  int32_t pairs;
  std::memcpy(&pairs, codes, sizeof pairs);
  const __m256i index = _mm256_cvtepu8_epi32(interleaved(_mm_cvtsi32_si128(pairs)));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, index),
                          _mm256_permutevar8x32_ps(table.high, index),
                          _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
#else
  return Vec{table.all[codes[0] >> 4], table.all[codes[0] & 15], table.all[codes[1] >> 4],
             table.all[codes[1] & 15]};
#endif
}

PIPELINE_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }
PIPELINE_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }

// A row's sum in sixteen parts, element j in part j % 16, which are added in halves: in the same order
// however wide a vector is, so that processors with AVX2 and with AVX-512 have the same bits.
class Sum {
 public:
  // Adds the vector at j, or the product of two; lanes beyond the row's end must be 0.
  __attribute__((always_inline)) void add(int64_t j, Vec x) { parts_[j / kWidth % kParts] += x; }
  __attribute__((always_inline)) void add(int64_t j, Vec x, Vec y) {
    Vec& part = parts_[j / kWidth % kParts];
    part = multiply_add(x, y, part);
  }
  __attribute__((always_inline)) float total() const {
    float lanes[16];
    std::memcpy(lanes, parts_, sizeof lanes);
    for (int step = 8; step > 0; step /= 2)
      for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    return lanes[0];
  }

 private:
  static constexpr int kParts = 16 / kWidth;
  Vec parts_[kParts] = {};
};

PIPELINE_INLINE float max(Vec v) {
  float lanes[kWidth];
  store(lanes, v);
  float m = lanes[0];
  for (int i = 1; i < kWidth; ++i) m = lanes[i] > m ? lanes[i] : m;
  return m;
}

// e^x, relative error under 2e-7 (Cephes' polynomial); below -87.3 it is 0.
PIPELINE_INLINE Vec exp(Vec x) {
  const Vec low = splat(-87.3f);
  const Vec clamped = min(max(x, low), splat(88.3f));
  // n = round(x / ln 2): adding and taking away 1.5 * 2^23 rounds to the nearest integer.
  const Vec shift = splat(12582912.0f);
  const Vec biased = clamped * 1.44269504088896341f + shift;
  const Vec n = biased - shift;
  const Vec r = clamped - n * 0.693359375f - n * -2.12194440e-4f;
  Vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  IntVec bits;
  std::memcpy(&bits, &biased, sizeof bits);
  bits = (bits << 23) + 0x3f800000;  // 2^n: the integer is in the low bits of the mantissa
  Vec power;
  std::memcpy(&power, &bits, sizeof power);
  return x < low ? splat(0.0f) : p * power;
}

// Relative error under 3e-7 (Cephes' tanhf).
PIPELINE_INLINE Vec tanh(Vec x) {
  const Vec square = x * x;
  Vec p = splat(-5.70498872745e-3f);
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const Vec near_zero = x + x * square * p, far = 1.0f - 2.0f / (exp(2.0f * x) + 1.0f);
  return square < 0.390625f ? near_zero : far;  // 0.625^2
}

}  // namespace
}  // namespace pipeline::transformer
