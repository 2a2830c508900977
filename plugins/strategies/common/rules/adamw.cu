// AdamW in one pass: weights, state, and the weights in fewer bits that the task computes with.
#include "device.cuh"

// As adamw.cpp passes them. A block does kOfABlock times kAtOnce elements.
constexpr int kMostRuns = 64, kAtOnce = 8, kOfABlock = 1024;
struct Run {
  float *weights, *average, *square;
  const float* gradients;
  void* narrow;  // null: none
  long long count, first_block;
};
struct Runs {
  Run runs[kMostRuns];
  int count;
};
struct Rule {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
};

template <class T, int count>
struct alignas(16) Few {
  T values[count];
};

// step: with this update. A null divisor or found_inf has no effect.
template <class T>
__device__ void adamw(const Runs& runs, const Rule& rule, const float* step, const float* divisor,
                      const float* found_inf) {
  if (found_inf != nullptr && *found_inf != 0) return;
  __shared__ float step_size, correction;
  if (threadIdx.x == 0) {
    // 1 - beta^step
    step_size = static_cast<float>(rule.learning_rate / -expm1(*step * log(rule.beta1)));
    correction = static_cast<float>(sqrt(-expm1(*step * log(rule.beta2))));
  }
  __syncthreads();
  const float beta1 = static_cast<float>(rule.beta1), beta2 = static_cast<float>(rule.beta2),
              rest1 = static_cast<float>(1 - rule.beta1), rest2 = static_cast<float>(1 - rule.beta2),
              epsilon = static_cast<float>(rule.epsilon),
              kept = static_cast<float>(1 - rule.learning_rate * rule.weight_decay),
              by = divisor != nullptr ? *divisor : 1;
  int mine = 0;
  while (mine + 1 < runs.count && blockIdx.x >= runs.runs[mine + 1].first_block) ++mine;
  const Run& run = runs.runs[mine];
  const long long begin = (blockIdx.x - run.first_block) * kOfABlock, end = run.count / kAtOnce;
  for (long long i = begin + threadIdx.x; i < end && i < begin + kOfABlock; i += blockDim.x) {
    using Wide = Few<float, kAtOnce>;
    const Wide gradient = reinterpret_cast<const Wide*>(run.gradients)[i];
    Wide weight = reinterpret_cast<Wide*>(run.weights)[i], average = reinterpret_cast<Wide*>(run.average)[i],
         square = reinterpret_cast<Wide*>(run.square)[i];
    Few<T, kAtOnce> narrow;
    for (int k = 0; k < kAtOnce; ++k) {
      const float g = gradient.values[k] / by;
      float &w = weight.values[k], &m = average.values[k], &v = square.values[k];
      m = beta1 * m + rest1 * g;
      v = beta2 * v + rest2 * g * g;
      w = kept * w - step_size * m / (sqrtf(v) / correction + epsilon);
      narrow.values[k] = rounded<T>(w);
    }
    reinterpret_cast<Wide*>(run.weights)[i] = weight;
    reinterpret_cast<Wide*>(run.average)[i] = average;
    reinterpret_cast<Wide*>(run.square)[i] = square;
    if (run.narrow != nullptr) reinterpret_cast<Few<T, kAtOnce>*>(run.narrow)[i] = narrow;
  }
}

#define ADAMW(T)                                                                                         \
  extern "C" __global__ void __launch_bounds__(256)                                                      \
      adamw_##T(const __grid_constant__ Runs runs, const __grid_constant__ Rule rule, const float* step, \
                const float* divisor, const float* found_inf) {                                          \
    adamw<T>(runs, rule, step, divisor, found_inf);                                                      \
  }
ADAMW(float)
ADAMW(bfloat16)
ADAMW(float16)
