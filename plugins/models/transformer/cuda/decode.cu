// Matrices in 8 and 4 bits as numbers.
#include "device.cuh"

// data: `rows` rows of `columns` values, row_bytes apart, as quantization::Row has them. tables: the 16
// levels of NF4 and the 256 values of the dynamic map; INT8 reads none. out: (rows, columns). A thread makes
// a vector at a time.
template <class T>
__device__ void decode(int is_nf4, const unsigned char* data, long long row_bytes, long long rows,
                       int columns, const float* tables, T* out) {
  constexpr int kSize = Vector<T>::kSize, kBlock = 64, kBlocksAGroup = 256;
  const int vectors = columns / kSize, blocks = columns / kBlock;
  const int groups = (blocks + kBlocksAGroup - 2) / kBlocksAGroup + 1;
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * vectors) return;
  const int first = static_cast<int>(i % vectors) * kSize;
  const unsigned char* const row = data + i / vectors * row_bytes;
  Vector<T> vector;
  if (is_nf4 == 0) {
    const float scale = *reinterpret_cast<const float*>(row + columns);
    for (int k = 0; k < kSize; ++k)
      vector.values[k] = rounded<T>(static_cast<float>(static_cast<signed char>(row[first + k])) * scale);
  } else {
    const unsigned char* const tail = row + columns / 2;
    const float* const scales = reinterpret_cast<const float*>(tail + 8);
    const int block = first / kBlock;
    const unsigned phase = *reinterpret_cast<const unsigned*>(tail + 4);
    const float size = tables[16 + tail[8 + 4 * groups + block]] * scales[(phase + block) / kBlocksAGroup] +
                       *reinterpret_cast<const float*>(tail);
    for (int k = 0; k < kSize; ++k) {
      const unsigned char pair = row[(first + k) / 2];
      vector.values[k] = rounded<T>(tables[k % 2 == 0 ? pair >> 4 : pair & 15] * size);
    }
  }
  reinterpret_cast<Vector<T>*>(out)[i] = vector;
}

#define DECODE(T)                                                                                         \
  extern "C" __global__ void __launch_bounds__(256)                                                       \
      decode_##T(int is_nf4, const unsigned char* data, long long row_bytes, long long rows, int columns, \
                 const float* tables, T* out) {                                                           \
    decode(is_nf4, data, row_bytes, rows, columns, tables, out);                                          \
  }
DECODE(float)
DECODE(bfloat16)
DECODE(float16)
