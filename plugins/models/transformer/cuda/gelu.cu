// GELU and the gradient of its argument in one pass, with the sums over rows that are the gradient of a bias.
#include "device.cuh"

// The forms, numbered as in transformer::Gelu.
constexpr int kTanh = 0, kExact = 1;

__device__ inline ValueAndSlope gelu(int form, float x) {
  if (form == kExact) return gelu_exact(x);
  return form == kTanh ? gelu_tanh(x) : times_logistic(x, 1.702f * x, 1.702f);
}

// x, d, y: (rows, columns), of whole vectors. y = gelu(x); d, the gradient of y, becomes that of x. A block
// does `rows_each` rows of as many columns as its threads have vectors; `strips` of them are a row. sums:
// (blocks of a strip, columns), the new d over their rows.
template <class T>
__device__ void gelu_backward(int form, const T* x, T* d, T* y, float* sums, long long rows, int columns,
                              int strips, int rows_each) {
  constexpr int kSize = Vector<T>::kSize;
  const int vectors = columns / kSize, self = blockIdx.x % strips * blockDim.x + threadIdx.x;
  if (self >= vectors) return;
  const long long group = blockIdx.x / strips, begin = group * rows_each;
  const long long end = begin + rows_each < rows ? begin + rows_each : rows;
  float sum[kSize] = {};
  for (long long row = begin; row < end; ++row) {
    const long long place = row * vectors + self;
    const Vector<T> from = reinterpret_cast<const Vector<T>*>(x)[place];
    Vector<T> gradient = reinterpret_cast<const Vector<T>*>(d)[place], value;
    for (int k = 0; k < kSize; ++k) {
      const ValueAndSlope at = gelu(form, widened(from.values[k]));
      const float dx = widened(gradient.values[k]) * at.slope;
      value.values[k] = rounded<T>(at.value);
      gradient.values[k] = rounded<T>(dx);
      sum[k] += dx;
    }
    reinterpret_cast<Vector<T>*>(y)[place] = value;
    reinterpret_cast<Vector<T>*>(d)[place] = gradient;
  }
  for (int k = 0; k < kSize; ++k) sums[group * columns + self * kSize + k] = sum[k];
}

#define GELU_BACKWARD(T)                                                                            \
  extern "C" __global__ void __launch_bounds__(128)                                                 \
      gelu_backward_##T(int form, const T* x, T* d, T* y, float* sums, long long rows, int columns, \
                        int strips, int rows_each) {                                                \
    gelu_backward(form, x, d, y, sums, rows, columns, strips, rows_each);                           \
  }
GELU_BACKWARD(float)
GELU_BACKWARD(bfloat16)
GELU_BACKWARD(float16)
