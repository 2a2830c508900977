// Pillow's resampling of 8-bit pictures (its Resample.c), so that pixels are the same to the bit: across,
// then down, with weights of 22 fractional bits and 8 bits a value between the two.
#include "plugins/tasks/vlm/images/resample.hpp"

#include <algorithm>
#include <cmath>

namespace pipeline::vlm {
namespace {

constexpr int kFractionBits = 22;  // a sum of weights may leave 0..255 by a factor of two, and has a sign
constexpr int32_t kHalf = 1 << (kFractionBits - 1);
constexpr int64_t kLanes = 4;  // of a pixel of a row in work: its channels, and one that stays unused

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

// Which inputs make each output along one side, and how much of each.
struct Taps {
  int64_t stride = 0;            // weights that an output has room for; those beyond its count are zero
  std::vector<int32_t> weights;  // (outputs, stride)
  std::vector<int64_t> first, count;

  // Of the outputs from `begin` on, of a side that goes from `in` to `out` pixels.
  Taps(int64_t in, int64_t out, int64_t begin, int64_t outputs) {
    const double scale = static_cast<double>(in) / static_cast<double>(out), wide = std::max(scale, 1.0);
    const double support = 2.0 * wide;
    stride = static_cast<int64_t>(std::ceil(support)) * 2 + 2;  // even: the kernel takes two at a time
    weights.resize(static_cast<size_t>(outputs * stride));
    std::vector<double> exact(static_cast<size_t>(stride));
    for (int64_t i = 0; i < outputs; ++i) {
      const double center = (static_cast<double>(begin + i) + 0.5) * scale;
      const int64_t from = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
      const int64_t to = std::min(static_cast<int64_t>(center + support + 0.5), in);
      double sum = 0.0;
      for (int64_t x = from; x < to; ++x) {
        const double weight = bicubic((static_cast<double>(x) - center + 0.5) * (1.0 / wide));
        exact[static_cast<size_t>(x - from)] = weight;
        sum += weight;
      }
      int32_t* const out_weights = &weights[static_cast<size_t>(i * stride)];
      for (int64_t x = 0; x < to - from; ++x) {
        const double weight = exact[static_cast<size_t>(x)] / sum * (1 << kFractionBits);
        out_weights[x] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
      }
      first.push_back(from);
      count.push_back(to - from);
    }
  }
};

[[gnu::always_inline]] inline uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

// Rows of pixels, `stride` bytes apart.
struct Rows {
  const uint8_t* data;
  int64_t stride;
  const uint8_t* at(int64_t row) const { return data + row * stride; }
};

// The kernels are always inlined, so that they are compiled for the instructions of their caller. Their inner
// loops have a fixed length, which compilers turn into vector instructions.
[[gnu::always_inline]] inline void across(Rows in, int64_t rows, int64_t in_width, const Taps& taps,
                                          uint8_t* out) {
  const auto outputs = static_cast<int64_t>(taps.first.size());
  std::vector<int32_t> weights(taps.weights.size() * kLanes);  // each once a lane
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = taps.weights[i / kLanes];
  std::vector<int32_t> row(static_cast<size_t>((in_width + taps.stride) * kLanes));
  for (int64_t y = 0; y < rows; ++y) {
    const uint8_t* const pixels = in.at(y);
    for (int64_t x = 0; x < in_width; ++x) {
      for (int64_t c = 0; c < 3; ++c) row[static_cast<size_t>(x * kLanes + c)] = pixels[x * 3 + c];
    }
    for (int64_t x = 0; x < outputs; ++x, out += 3) {
      const int32_t* value = &row[static_cast<size_t>(taps.first[static_cast<size_t>(x)] * kLanes)];
      const int32_t* weight = &weights[static_cast<size_t>(x * taps.stride * kLanes)];
      int32_t sums[2 * kLanes] = {};
      for (int64_t left = taps.count[static_cast<size_t>(x)]; left > 0; left -= 2) {
        for (int64_t lane = 0; lane < 2 * kLanes; ++lane) sums[lane] += value[lane] * weight[lane];
        value += 2 * kLanes, weight += 2 * kLanes;
      }
      for (int64_t c = 0; c < 3; ++c) out[c] = rounded(sums[c] + sums[c + kLanes] + kHalf);
    }
  }
}

[[gnu::always_inline]] inline void down(Rows in, int64_t row_bytes, const Taps& taps, uint8_t* out) {
  constexpr int64_t kChunk = 64;
  for (size_t y = 0; y < taps.first.size(); ++y, out += row_bytes) {
    const int32_t* const weights = &taps.weights[y * static_cast<size_t>(taps.stride)];
    for (int64_t at = 0; at < row_bytes; at += kChunk) {
      const int64_t length = std::min(kChunk, row_bytes - at);
      int32_t sums[kChunk];
      std::fill_n(sums, kChunk, kHalf);
      for (int64_t i = 0; i < taps.count[y]; ++i) {
        const uint8_t* const row = in.at(taps.first[y] + i) + at;
        if (length == kChunk) {
          for (int64_t x = 0; x < kChunk; ++x) sums[x] += row[x] * weights[i];
        } else {
          for (int64_t x = 0; x < length; ++x) sums[x] += row[x] * weights[i];
        }
      }
      for (int64_t x = 0; x < length; ++x) out[at + x] = rounded(sums[x]);
    }
  }
}

struct Kernels {
  void (*across)(Rows, int64_t, int64_t, const Taps&, uint8_t*);
  void (*down)(Rows, int64_t, const Taps&, uint8_t*);
};

void across_anywhere(Rows in, int64_t rows, int64_t in_width, const Taps& taps, uint8_t* out) {
  across(in, rows, in_width, taps, out);
}
void down_anywhere(Rows in, int64_t row_bytes, const Taps& taps, uint8_t* out) {
  down(in, row_bytes, taps, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void across_avx2(Rows in, int64_t rows, int64_t in_width, const Taps& taps,
                                         uint8_t* out) {
  across(in, rows, in_width, taps, out);
}
[[gnu::target("avx2")]] void down_avx2(Rows in, int64_t row_bytes, const Taps& taps, uint8_t* out) {
  down(in, row_bytes, taps, out);
}
#endif

Kernels fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return {across_avx2, down_avx2};
#endif
  return {across_anywhere, down_anywhere};
}

}  // namespace

Image resample(const Image& image, int64_t width, int64_t height, const Window& window) {
  static const Kernels kernels = fastest();
  const bool same_width = width == image.width, same_height = height == image.height;
  const Taps columns(same_width ? 1 : image.width, same_width ? 1 : width, same_width ? 0 : window.left,
                     same_width ? 0 : window.width);
  Taps lines(same_height ? 1 : image.height, same_height ? 1 : height, same_height ? 0 : window.top,
             same_height ? 0 : window.height);
  const int64_t top = same_height ? window.top : lines.first.front();
  const int64_t rows = same_height ? window.height : lines.first.back() + lines.count.back() - top;
  for (int64_t& first : lines.first) first -= top;

  const int64_t row_bytes = window.width * 3;
  Image result{window.width, window.height, {}};
  Rows in{image.pixels.data() + top * image.width * 3, image.width * 3};
  std::vector<uint8_t> narrow;
  if (same_width) {
    in.data += window.left * 3;
  } else {
    narrow.resize(static_cast<size_t>(rows * row_bytes));
    kernels.across(in, rows, image.width, columns, narrow.data());
    in = {narrow.data(), row_bytes};
  }
  if (same_height && !same_width) {
    result.pixels = std::move(narrow);
    return result;
  }
  result.pixels.resize(static_cast<size_t>(window.height * row_bytes));
  if (same_height) {
    for (int64_t y = 0; y < rows; ++y) std::copy_n(in.at(y), row_bytes, result.pixels.data() + y * row_bytes);
  } else {
    kernels.down(in, row_bytes, lines, result.pixels.data());
  }
  return result;
}

}  // namespace pipeline::vlm
