// All gradients of layer norm, or of RMS norm, in one pass.
#include "device.cuh"

// dy, x, residual, dx: (rows, columns), of whole vectors; mean, rstd: (rows). With h = (x - mean) rstd and g
// = dy weight, dx = rstd (g - mean(g) - h mean(g h)) + residual. A null mean: RMS norm, where h = x rstd and
// the mean of g is left out. A null residual: none; null results: not wanted. A block does `rows_each` rows;
// dweight, dbias: (blocks, columns), their sums of dy h and of dy.
template <class T>
__device__ void layer_norm_backward(const T* dy, const T* x, const T* weight, const float* mean,
                                    const float* rstd, const T* residual, T* dx, float* dweight, float* dbias,
                                    long long rows, int columns, int rows_each) {
  constexpr int kSize = Vector<T>::kSize;
  const int vectors = columns / kSize, self = threadIdx.x;
  const bool mine = self < vectors;  // the others only add zeros up
  const auto read = [&](const T* from, long long row) {
    return mine ? reinterpret_cast<const Vector<T>*>(from)[row * vectors + self] : Vector<T>{};
  };
  const Vector<T> weights = read(weight, 0);
  float sum_weight[kSize] = {}, sum_bias[kSize] = {};
  const long long begin = static_cast<long long>(blockIdx.x) * rows_each;
  const long long end = begin + rows_each < rows ? begin + rows_each : rows;
  for (long long row = begin; row < end; ++row) {
    const Vector<T> of_dy = read(dy, row), of_x = read(x, row);
    const Vector<T> around = residual != nullptr ? read(residual, row) : Vector<T>{};
    const float m = mean != nullptr ? mean[row] : 0, r = rstd[row];
    float g[kSize], h[kSize], sums[2] = {};  // of g, of g h
    for (int k = 0; k < kSize; ++k) {
      const float d = widened(of_dy.values[k]);
      h[k] = (widened(of_x.values[k]) - m) * r;
      g[k] = d * widened(weights.values[k]);
      sums[0] += g[k];
      sums[1] += g[k] * h[k];
      sum_weight[k] += d * h[k];
      sum_bias[k] += d;
    }
    if (dx == nullptr) continue;
    over_block<Sum>(sums);
    if (!mine) continue;
    const float mean_g = mean != nullptr ? sums[0] / columns : 0, mean_gh = sums[1] / columns;
    Vector<T> result;
    for (int k = 0; k < kSize; ++k)
      result.values[k] = rounded<T>(r * (g[k] - mean_g - h[k] * mean_gh) + widened(around.values[k]));
    reinterpret_cast<Vector<T>*>(dx)[row * vectors + self] = result;
  }
  if (!mine || dweight == nullptr) return;
  for (int k = 0; k < kSize; ++k) {
    const long long place = static_cast<long long>(blockIdx.x) * columns + self * kSize + k;
    dweight[place] = sum_weight[k];
    dbias[place] = sum_bias[k];
  }
}

#define LAYER_NORM_BACKWARD(T)                                                                              \
  extern "C" __global__ void __launch_bounds__(1024) layer_norm_backward_##T(                               \
      const T* dy, const T* x, const T* weight, const float* mean, const float* rstd, const T* residual,    \
      T* dx, float* dweight, float* dbias, long long rows, int columns, int rows_each) {                    \
    layer_norm_backward(dy, x, weight, mean, rstd, residual, dx, dweight, dbias, rows, columns, rows_each); \
  }
LAYER_NORM_BACKWARD(float)
LAYER_NORM_BACKWARD(bfloat16)
LAYER_NORM_BACKWARD(float16)
