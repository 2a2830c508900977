// Cross-entropy of one row of logits per block, in place: logits are read twice, the second time mostly from
// the cache, and written once. As kernels/rows.inc.hpp does on the CPU.
#include "device.cuh"

// logits: (rows, columns), rows `stride` apart, each aligned to 16 bytes; targets, losses, added: (rows). The
// losses are negative log likelihoods of the targets; `added`, where it is wanted, is what z-loss and label
// smoothing add to them. With `gradient`, logits become scale times the gradient of both; without the two,
// (softmax - one hot) * scale.
template <class T>
__device__ void cross_entropy(T* all, long long stride, int columns, const long long* targets, float* losses,
                              float* added, int gradient, float scale, float z_loss, float smoothing) {
  constexpr int kSize = Vector<T>::kSize;
  T* const logits = all + blockIdx.x * stride;
  auto* const vectors = reinterpret_cast<Vector<T>*>(logits);
  const int count = columns / kSize, step = blockDim.x, self = threadIdx.x;
  const long long target = targets[blockIdx.x];
  if (target < 0 || target >= columns) __trap();
  const float of_target = widened(logits[target]);  // before anybody writes

  float largest = -kInfinity, sum = 0;  // of exp(x - largest)
  const auto raise = [&](float to) {
    if (to > largest) {
      sum *= expf(largest - to);
      largest = to;
    }
  };
  const auto add = [&](float x) { sum += x == -kInfinity ? 0 : expf(x - largest); };
  for (int i = self; i < count; i += step) {
    const Vector<T> vector = vectors[i];
    float of_vector = -kInfinity;
    for (int k = 0; k < kSize; ++k) of_vector = fmaxf(of_vector, widened(vector.values[k]));
    raise(of_vector);
    for (int k = 0; k < kSize; ++k) add(widened(vector.values[k]));
  }
  for (int j = count * kSize + self; j < columns; j += step) {
    raise(widened(logits[j]));
    add(widened(logits[j]));
  }
  const float row_largest = over_block<Maximum>(largest);
  sum = over_block<Sum>(sum == 0 ? 0 : sum * expf(largest - row_largest));
  float mean = 0;  // of x - largest
  if (smoothing > 0) {
    for (int i = self; i < count; i += step) {
      const Vector<T> vector = vectors[i];
      for (int k = 0; k < kSize; ++k) mean += widened(vector.values[k]) - row_largest;
    }
    for (int j = count * kSize + self; j < columns; j += step) mean += widened(logits[j]) - row_largest;
    mean = over_block<Sum>(mean) / columns;
  }
  const float log_sum = logf(sum) + row_largest;
  if (self == 0) {
    losses[blockIdx.x] = logf(sum) + (row_largest - of_target);
    if (added != nullptr)
      added[blockIdx.x] = smoothing * (of_target - row_largest - mean) + z_loss * log_sum * log_sum;
  }
  if (!gradient) return;

  const float factor = scale / sum * (1 + 2 * z_loss * log_sum);
  const float everywhere = scale * smoothing / columns, at_target = everywhere + scale * (1 - smoothing);
  const auto derivative = [&](T x, int column) {
    return rounded<T>(expf(widened(x) - row_largest) * factor - (column == target ? at_target : everywhere));
  };
  // Last columns first: those are still in the cache.
  for (int j = columns - 1 - self; j >= count * kSize; j -= step) logits[j] = derivative(logits[j], j);
  for (int i = count - 1 - self; i >= 0; i -= step) {
    Vector<T> vector = vectors[i];
    for (int k = 0; k < kSize; ++k) vector.values[k] = derivative(vector.values[k], i * kSize + k);
    vectors[i] = vector;
  }
}

#define CROSS_ENTROPY(T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(1024)                                                       \
      cross_entropy_##T(T* logits, long long stride, int columns, const long long* targets, float* losses, \
                        float* added, int gradient, float scale, float z_loss, float smoothing) {          \
    cross_entropy(logits, stride, columns, targets, losses, added, gradient, scale, z_loss, smoothing);    \
  }
CROSS_ENTROPY(float)
CROSS_ENTROPY(bfloat16)
CROSS_ENTROPY(float16)
