// What kernels share. NVRTC compiles them for the device that is there; tests compile them
// for the CPU, with tests/cuda/emulator/cuda_on_host.hpp in place of the compiler's own names.
#pragma once

struct bfloat16 {
  unsigned short bits;
};
struct float16 {
  unsigned short bits;
};

__device__ inline float widened(float x) { return x; }
__device__ inline float widened(bfloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

// Rounds to the nearest, ties to even, as LibTorch does.
template <class T>
__device__ T rounded(float x);
template <>
__device__ inline float rounded<float>(float x) {
  return x;
}
template <>
__device__ inline bfloat16 rounded<bfloat16>(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return {0x7fc0};
  return {static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

#ifdef __CUDACC_RTC__
__device__ inline float widened(float16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
template <>
__device__ inline float16 rounded<float16>(float x) {
  float16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
  return narrow;
}
#else
__device__ float widened(float16 x);
template <>
__device__ float16 rounded<float16>(float x);
#endif

// The values that a thread reads or writes at once.
template <class T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

struct ValueAndSlope {
  float value, slope;
};

// x s, with s the logistic function of t, which has this slope: SiLU and GELU's forms.
__device__ inline ValueAndSlope times_logistic(float x, float t, float slope) {
  const float s = 1 / (1 + expf(-t));
  return {x * s, s + x * s * (1 - s) * slope};
}
// With t = 2 sqrt(2/pi) (x + 0.044715 x^3).
__device__ inline ValueAndSlope gelu_exact(float x) {
  const float below = 0.5f * erfcf(-0.7071067811865476f * x);
  return {x * below, below + x * 0.3989422804014327f * expf(-0.5f * x * x)};
}
__device__ inline ValueAndSlope gelu_tanh(float x) {
  return times_logistic(x, x * (1.5957691216057308f + 0.07135481627f * x * x),
                        1.5957691216057308f + 0.21406444881f * x * x);
}

constexpr int kWarp = 32;
constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Combines each of `values` over all threads of the block, in an order that depends on their number alone;
// all threads get the results.
template <class Combine, int count>
__device__ void over_block(float (&values)[count]) {
  const Combine combine{};
  __shared__ float of_warps[count][kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  for (int i = 0; i < count; ++i) {
    for (int other = kWarp / 2; other > 0; other /= 2)
      values[i] = combine(values[i], __shfl_xor_sync(0xffffffff, values[i], other));
    if (lane == 0) of_warps[i][warp] = values[i];
  }
  __syncthreads();
  for (int i = 0; i < count; ++i) {
    values[i] = of_warps[i][0];
    for (int other = 1; other < warps; ++other) values[i] = combine(values[i], of_warps[i][other]);
  }
  __syncthreads();  // the next call writes there
}
template <class Combine>
__device__ float over_block(float value) {
  float values[1] = {value};
  over_block<Combine>(values);
  return values[0];
}
