// Rotary positions of queries and keys, and RMS norms of their heads before: in one pass over the packed
// queries, keys and values.
#include "device.cuh"

// A head is done by `lanes` threads of a group of `group`, a power of two of at most a warp: each has a
// vector of the first half of the head's channels and the one of the second half that it is turned with.
struct Lanes {
  int lanes, group, lane, groups, self;
  __device__ Lanes(int vectors) : lanes(vectors), group(1) {
    while (group < lanes) group *= 2;
    lane = static_cast<int>(threadIdx.x) % group;
    self = static_cast<int>(threadIdx.x) / group;
    groups = static_cast<int>(blockDim.x) / group;
  }
  // The sum over the group; all threads of a block come to it.
  __device__ float sum(float value) const {
    for (int other = group / 2; other > 0; other /= 2) value += __shfl_xor_sync(0xffffffff, value, other);
    return value;
  }
};

// The two vectors of a thread, as numbers.
template <class T>
struct Pair {
  static constexpr int kSize = Vector<T>::kSize;
  float first[kSize], second[kSize];

  __device__ void read(const T* head, int lane, int lanes) {
    const Vector<T> a = reinterpret_cast<const Vector<T>*>(head)[lane],
                    b = reinterpret_cast<const Vector<T>*>(head)[lane + lanes];
    for (int k = 0; k < kSize; ++k) first[k] = widened(a.values[k]), second[k] = widened(b.values[k]);
  }
  __device__ void write(T* head, int lane, int lanes) const {
    Vector<T> a, b;
    for (int k = 0; k < kSize; ++k) a.values[k] = rounded<T>(first[k]), b.values[k] = rounded<T>(second[k]);
    reinterpret_cast<Vector<T>*>(head)[lane] = a;
    reinterpret_cast<Vector<T>*>(head)[lane + lanes] = b;
  }
  // cos, sin: of the row.
  __device__ void turn(const float* cos, const float* sin, float sign, int lane) {
    for (int k = 0; k < kSize; ++k) {
      const float c = cos[lane * kSize + k], s = sign * sin[lane * kSize + k], a = first[k];
      first[k] = a * c - second[k] * s;
      second[k] = second[k] * c + a * s;
    }
  }
  __device__ float dot(const Pair& other) const {
    float sum = 0;
    for (int k = 0; k < kSize; ++k) sum += first[k] * other.first[k] + second[k] * other.second[k];
    return sum;
  }
  __device__ void multiply(const Pair& other) {
    for (int k = 0; k < kSize; ++k) first[k] *= other.first[k], second[k] *= other.second[k];
  }
  __device__ void add(const Pair& other) {
    for (int k = 0; k < kSize; ++k) first[k] += other.first[k], second[k] += other.second[k];
  }
  __device__ void multiply(float by) {
    for (int k = 0; k < kSize; ++k) first[k] *= by, second[k] *= by;
  }
};

// x, y: (rows, `stride` columns); the first `count` heads of 2 half channels are done, of which the first
// `turned` are turned by cos and sin (rows, half), unless these are null; the others are copied. Before, with
// weights (2 half), the first `queries` are normed with one, and the others that are turned with the other.
// x may be y. sign: 1, or -1 to turn back.
template <class T>
__device__ void heads(const T* x, T* y, long long rows, int stride, int count, int queries, int turned,
                      int half, const T* query_weight, const T* key_weight, float eps, const float* cos,
                      const float* sin, float sign) {
  const Lanes of(half / Vector<T>::kSize);
  const long long number = static_cast<long long>(blockIdx.x) * of.groups + of.self, row = number / count;
  const int head = static_cast<int>(number % count);
  const bool mine = row < rows && of.lane < of.lanes;
  const long long place = row * stride + head * 2 * half;
  const T* const weight = head < queries ? query_weight : key_weight;
  Pair<T> pair{};
  if (mine) pair.read(x + place, of.lane, of.lanes);
  if (query_weight != nullptr || key_weight != nullptr) {
    const float square = of.sum(pair.dot(pair)) / static_cast<float>(2 * half);
    if (mine && head < turned && weight != nullptr) {
      Pair<T> scale;
      scale.read(weight, of.lane, of.lanes);
      pair.multiply(1 / sqrtf(square + eps));
      pair.multiply(scale);
    }
  }
  if (!mine) return;
  if (head < turned && cos != nullptr) pair.turn(cos + row * half, sin + row * half, sign, of.lane);
  pair.write(y + place, of.lane, of.lanes);
}

// dx of dy, as above; x: what was normed. A block does `rows_each` rows; dweights: (blocks, groups, 2, 2
// half), the sums of what they add to the gradients of both weights; null: not wanted.
template <class T>
__device__ void heads_backward(const T* dy, const T* x, T* dx, long long rows, int stride, int count,
                               int queries, int turned, int half, const T* query_weight, const T* key_weight,
                               float eps, const float* cos, const float* sin, float* dweights,
                               int rows_each) {
  constexpr int kSize = Vector<T>::kSize;
  const Lanes of(half / kSize);
  Pair<T> of_queries{}, of_keys{};
  const long long begin = static_cast<long long>(blockIdx.x) * rows_each;
  const long long end = begin + rows_each < rows ? begin + rows_each : rows;
  for (long long row = begin; row < end; ++row) {
    for (int first = 0; first < count; first += of.groups) {
      const int head = first + of.self;
      const bool mine = head < count && of.lane < of.lanes;
      const long long place = row * stride + head * 2 * half;
      const T* const weight = head < queries ? query_weight : key_weight;
      const bool is_normed = mine && head < turned && weight != nullptr;
      Pair<T> d{}, h{}, scale{};
      if (mine) d.read(dy + place, of.lane, of.lanes);
      if (mine && head < turned && cos != nullptr) d.turn(cos + row * half, sin + row * half, -1, of.lane);
      if (is_normed) h.read(x + place, of.lane, of.lanes), scale.read(weight, of.lane, of.lanes);
      // With h = x rstd and g = d weight: dx = rstd (g - h mean(g h)), and the weight's gradient is d h.
      const float width = static_cast<float>(2 * half), rstd = 1 / sqrtf(of.sum(h.dot(h)) / width + eps);
      h.multiply(rstd);
      if (is_normed) {
        Pair<T> of_weight = d;
        of_weight.multiply(h);
        head < queries ? of_queries.add(of_weight) : of_keys.add(of_weight);
        d.multiply(scale);
      }
      const float mean = of.sum(d.dot(h)) / width;
      if (is_normed) {
        for (int k = 0; k < kSize; ++k) {
          d.first[k] = rstd * (d.first[k] - h.first[k] * mean);
          d.second[k] = rstd * (d.second[k] - h.second[k] * mean);
        }
      }
      if (mine) d.write(dx + place, of.lane, of.lanes);
    }
  }
  if (dweights == nullptr || of.lane >= of.lanes) return;
  float* const own = dweights + (static_cast<long long>(blockIdx.x) * of.groups + of.self) * 4 * half;
  for (int k = 0; k < kSize; ++k) {
    const int at = of.lane * kSize + k;
    own[at] = of_queries.first[k], own[at + half] = of_queries.second[k];
    own[at + 2 * half] = of_keys.first[k], own[at + 3 * half] = of_keys.second[k];
  }
}

#define HEADS(T)                                                                                             \
  extern "C" __global__ void __launch_bounds__(128)                                                          \
      heads_##T(const T* x, T* y, long long rows, int stride, int count, int queries, int turned, int half,  \
                const T* query_weight, const T* key_weight, float eps, const float* cos, const float* sin,   \
                float sign) {                                                                                \
    heads(x, y, rows, stride, count, queries, turned, half, query_weight, key_weight, eps, cos, sin, sign);  \
  }                                                                                                          \
  extern "C" __global__ void __launch_bounds__(128)                                                          \
      heads_backward_##T(const T* dy, const T* x, T* dx, long long rows, int stride, int count, int queries, \
                         int turned, int half, const T* query_weight, const T* key_weight, float eps,        \
                         const float* cos, const float* sin, float* dweights, int rows_each) {               \
    heads_backward(dy, x, dx, rows, stride, count, queries, turned, half, query_weight, key_weight, eps,     \
                   cos, sin, dweights, rows_each);                                                           \
  }
HEADS(float)
HEADS(bfloat16)
HEADS(float16)
