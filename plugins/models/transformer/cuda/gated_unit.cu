// Gated units, and their gradients in one pass.
#include "device.cuh"

// The forms, numbered as in transformer::Gate.
constexpr int kSilu = 0, kGelu = 1;

__device__ inline ValueAndSlope gate(int form, float x) {
  if (form == kSilu) return times_logistic(x, x, 1);
  return form == kGelu ? gelu_tanh(x) : gelu_exact(x);
}

// gated, dgated: (rows, 2 inner), columns of the gate first; h, dh: (rows, inner), of whole vectors. A thread
// does one of h. Backward: a null h is not wanted.
template <class T>
__device__ void gated_unit(int form, const T* gated, T* h, long long rows, int inner) {
  const int vectors = inner / Vector<T>::kSize;
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * vectors) return;
  const Vector<T>* const row = reinterpret_cast<const Vector<T>*>(gated) + i / vectors * 2 * vectors;
  const Vector<T> g = row[i % vectors], up = row[i % vectors + vectors];
  Vector<T> result;
  for (int k = 0; k < Vector<T>::kSize; ++k)
    result.values[k] = rounded<T>(gate(form, widened(g.values[k])).value * widened(up.values[k]));
  reinterpret_cast<Vector<T>*>(h)[i] = result;
}

template <class T>
__device__ void gated_unit_backward(int form, const T* gated, const T* dh, T* dgated, T* h, long long rows,
                                    int inner) {
  const int vectors = inner / Vector<T>::kSize;
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * vectors) return;
  const long long place = i / vectors * 2 * vectors + i % vectors;
  const Vector<T> g = reinterpret_cast<const Vector<T>*>(gated)[place],
                  up = reinterpret_cast<const Vector<T>*>(gated)[place + vectors],
                  d = reinterpret_cast<const Vector<T>*>(dh)[i];
  Vector<T> dg, dup, again;
  for (int k = 0; k < Vector<T>::kSize; ++k) {
    const ValueAndSlope at = gate(form, widened(g.values[k]));
    const float of_up = widened(up.values[k]), of_h = widened(d.values[k]);
    dg.values[k] = rounded<T>(of_h * of_up * at.slope);
    dup.values[k] = rounded<T>(of_h * at.value);
    again.values[k] = rounded<T>(at.value * of_up);
  }
  reinterpret_cast<Vector<T>*>(dgated)[place] = dg;
  reinterpret_cast<Vector<T>*>(dgated)[place + vectors] = dup;
  if (h != nullptr) reinterpret_cast<Vector<T>*>(h)[i] = again;
}

#define GATED_UNIT(T)                                                                      \
  extern "C" __global__ void __launch_bounds__(256)                                        \
      gated_unit_##T(int form, const T* gated, T* h, long long rows, int inner) {          \
    gated_unit(form, gated, h, rows, inner);                                               \
  }                                                                                        \
  extern "C" __global__ void __launch_bounds__(256) gated_unit_backward_##T(               \
      int form, const T* gated, const T* dh, T* dgated, T* h, long long rows, int inner) { \
    gated_unit_backward(form, gated, dh, dgated, h, rows, inner);                          \
  }
GATED_UNIT(float)
GATED_UNIT(bfloat16)
GATED_UNIT(float16)
