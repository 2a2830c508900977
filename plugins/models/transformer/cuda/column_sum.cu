// Sums over rows: the gradient of a bias.
#include "device.cuh"

// x: (rows, columns), of whole vectors. A block does `rows_each` rows of as many columns as its threads have
// vectors; `strips` of them are a row. sums: (blocks of a strip, columns), x over their rows.
template <class T>
__device__ void column_sum(const T* x, float* sums, long long rows, int columns, int strips, int rows_each) {
  constexpr int kSize = Vector<T>::kSize;
  const int vectors = columns / kSize, self = blockIdx.x % strips * blockDim.x + threadIdx.x;
  if (self >= vectors) return;
  const long long group = blockIdx.x / strips, begin = group * rows_each;
  const long long end = begin + rows_each < rows ? begin + rows_each : rows;
  float sum[kSize] = {};
  for (long long row = begin; row < end; ++row) {
    const Vector<T> vector = reinterpret_cast<const Vector<T>*>(x)[row * vectors + self];
    for (int k = 0; k < kSize; ++k) sum[k] += widened(vector.values[k]);
  }
  for (int k = 0; k < kSize; ++k) sums[group * columns + self * kSize + k] = sum[k];
}

#define COLUMN_SUM(T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(128)                                                     \
      column_sum_##T(const T* x, float* sums, long long rows, int columns, int strips, int rows_each) { \
    column_sum(x, sums, rows, columns, strips, rows_each);                                              \
  }
COLUMN_SUM(float)
COLUMN_SUM(bfloat16)
COLUMN_SUM(float16)
