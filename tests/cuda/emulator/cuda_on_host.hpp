// CUDA's words for a kernel that is compiled for the CPU, and what runs one: the threads of a block are
// fibers of one thread, which change at __syncthreads() and in shuffles. All threads of a block, not of a
// warp alone, must come to the same ones.
#pragma once

#include <cstring>
#include <functional>

#define __device__
#define __global__
#define __launch_bounds__(threads)
#define __grid_constant__
#define __shared__ static  // blocks run one after the other

struct ThreadIndex {
  unsigned x = 0;
};
extern ThreadIndex threadIdx, blockIdx, blockDim;

void __syncthreads();
void __trap();
float __shfl_xor_sync(unsigned mask, float value, int lanes);

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

namespace pipeline::emulator {

// body(): once for each thread of each block. Throws if some threads of a block end while others wait for
// them.
void run_blocks(unsigned blocks, unsigned threads, const std::function<void()>& body);

}  // namespace pipeline::emulator
