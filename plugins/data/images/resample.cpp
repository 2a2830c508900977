// Pillow's resampling of 8-bit pictures (its Resample.c), so that pixels are the same to the bit: across and
// down, one after the other, with weights of 22 fractional bits and 8 bits a value between the two.
#include "plugins/data/images/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

namespace pipeline::images {
namespace {

constexpr int kFractionBits = 22;  // a sum of weights may leave 0..255 by a factor of two, and has a sign
constexpr int32_t kHalf = 1 << (kFractionBits - 1);
constexpr int64_t kLanes = 4;  // of a pixel in a row of work: its channels, and an unused one

// GCC's and Clang's vectors: each operation is one on all lanes.
typedef uint32_t Bits __attribute__((vector_size(16)));
typedef int32_t Pixel __attribute__((vector_size(16)));
typedef int32_t TwoPixels __attribute__((vector_size(32)));

double bilinear(double x) { return std::max(1.0 - std::abs(x), 0.0); }

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

double lanczos(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

struct Form {
  double (*weight_at)(double x);
  double support;
};

Form form_of(Filter filter) {
  return filter == Filter::kBilinear  ? Form{bilinear, 1.0}
         : filter == Filter::kLanczos ? Form{lanczos, 3.0}
                                      : Form{bicubic, 2.0};
}

// Which inputs make each output along one side, and with which weights.
struct Taps {
  int64_t begin = 0, end = 0;         // the inputs that are used at all
  int64_t stride = 0;                 // weights that an output has room for; those beyond its count are zero
  std::vector<int32_t> weights;       // (outputs, stride)
  std::vector<int64_t> first, count;  // counted from `begin`

  // Taps of `outputs` outputs, from first_output on, of a side that goes from `in` to `out` pixels.
  Taps(int64_t in, int64_t out, int64_t first_output, int64_t outputs, Filter filter) {
    const Form form = form_of(filter);
    const double scale = static_cast<double>(in) / static_cast<double>(out), wide = std::max(scale, 1.0);
    const double support = form.support * wide;
    stride = static_cast<int64_t>(std::ceil(support)) * 2 + 2;  // even: the kernel takes two at a time
    weights.resize(static_cast<size_t>(outputs * stride));
    std::vector<double> exact(static_cast<size_t>(stride));
    for (int64_t i = 0; i < outputs; ++i) {
      const double center = (static_cast<double>(first_output + i) + 0.5) * scale;
      const int64_t from = std::max<int64_t>(static_cast<int64_t>(std::floor(center - support + 0.5)), 0);
      const int64_t to = std::min(static_cast<int64_t>(std::floor(center + support + 0.5)), in);
      double sum = 0.0;
      for (int64_t x = from; x < to; ++x) {
        const double weight = form.weight_at((static_cast<double>(x) - center + 0.5) * (1.0 / wide));
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
    begin = first.front();
    end = first.back() + count.back();
    for (int64_t& from : first) from -= begin;
  }
};

// Rows of pixels, `stride` bytes apart.
struct Rows {
  const uint8_t* data;
  int64_t stride;
  const uint8_t* at(int64_t row) const { return data + row * stride; }
};

// The kernels are always inlined, so that they are compiled for the instructions of their caller.
[[gnu::always_inline]] inline void across(Rows in, int64_t rows, const Taps& taps, uint8_t* out) {
  const size_t outputs = taps.first.size();
  const int64_t width = taps.end - taps.begin,
                longest = *std::max_element(taps.count.begin(), taps.count.end());
  std::vector<int32_t> weights(taps.weights.size() * kLanes);  // each once a lane
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = taps.weights[i / kLanes];
  std::vector<int32_t> values(static_cast<size_t>((width + taps.stride) * kLanes));  // a row; zeros follow it
  for (int64_t y = 0; y < rows; ++y) {
    const uint8_t* const pixels = in.at(y);
    for (int64_t x = 0; x + 1 < width; ++x) {
      uint32_t bytes;  // little-endian; the unused lane gets the next pixel's byte
      std::memcpy(&bytes, pixels + x * 3, sizeof(bytes));
      const Bits pixel = (Bits{} + bytes) >> Bits{0, 8, 16, 24} & 255;
      std::memcpy(&values[static_cast<size_t>(x * kLanes)], &pixel, sizeof(pixel));
    }
    for (int64_t c = 0, x = width - 1; c < 3; ++c)
      values[static_cast<size_t>(x * kLanes + c)] = pixels[x * 3 + c];

    const int32_t* weight = weights.data();
    for (size_t x = 0; x < outputs; ++x, weight += taps.stride * kLanes, out += 3) {
      const int32_t* const value = &values[static_cast<size_t>(taps.first[x] * kLanes)];
      TwoPixels sums{};
      for (int64_t i = 0; i < longest * kLanes;
           i += 2 * kLanes) {  // as often for each output, so that branches are predicted
        TwoPixels two, factors;
        std::memcpy(&two, value + i, sizeof(two));
        std::memcpy(&factors, weight + i, sizeof(factors));
        sums += two * factors;
      }
      Pixel sum =
          __builtin_shufflevector(sums, sums, 0, 1, 2, 3) + __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
      sum = (sum + kHalf) >> kFractionBits;
      sum = sum < 0 ? Pixel{} : sum > 255 ? Pixel{} + 255 : sum;
      for (int64_t c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(sum[c]);
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
      for (int64_t x = 0; x < length; ++x) {
        out[at + x] = static_cast<uint8_t>(std::clamp(sums[x] >> kFractionBits, 0, 255));
      }
    }
  }
}

struct Kernels {
  void (*across)(Rows, int64_t, const Taps&, uint8_t*);
  void (*down)(Rows, int64_t, const Taps&, uint8_t*);
};

void across_anywhere(Rows in, int64_t rows, const Taps& taps, uint8_t* out) { across(in, rows, taps, out); }
void down_anywhere(Rows in, int64_t row_bytes, const Taps& taps, uint8_t* out) {
  down(in, row_bytes, taps, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void across_avx2(Rows in, int64_t rows, const Taps& taps, uint8_t* out) {
  across(in, rows, taps, out);
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

Image resample(const Image& image, int64_t width, int64_t height, const Window& window, Filter filter) {
  static const Kernels kernels = fastest();
  std::optional<Taps> columns, lines;
  if (width != image.width) columns.emplace(image.width, width, window.left, window.width, filter);
  if (height != image.height) lines.emplace(image.height, height, window.top, window.height, filter);

  // The part that is needed of the picture, and then of what was made of it.
  int64_t left = window.left, top = window.top;
  Image now{window.width, window.height, {}};
  if (columns) left = columns->begin, now.width = columns->end - left;
  if (lines) top = lines->begin, now.height = lines->end - top;
  Rows in{image.pixels.data() + (top * image.width + left) * 3, image.width * 3};
  const auto make = [&](int64_t w, int64_t h, const auto& kernel) {
    Image next = black(w, h);
    kernel(next.pixels.data());
    now = std::move(next);
    in = {now.pixels.data(), now.width * 3};
  };
  const auto go_across = [&] {
    if (!columns) return;
    make(window.width, now.height, [&](uint8_t* out) { kernels.across(in, now.height, *columns, out); });
  };
  const auto go_down = [&] {
    if (!lines) return;
    make(now.width, window.height, [&](uint8_t* out) { kernels.down(in, now.width * 3, *lines, out); });
  };
  // The order of Pillow 13. Earlier versions always go across first.
  const bool down_first = height < image.height && 2 * (image.width - width) < image.height - height;
  if (down_first) go_down();
  go_across();
  if (!down_first) go_down();
  if (!columns && !lines) {
    make(now.width, now.height, [&](uint8_t* out) {
      for (int64_t y = 0; y < now.height; ++y, out += now.width * 3)
        std::copy_n(in.at(y), now.width * 3, out);
    });
  }
  return now;
}

}  // namespace pipeline::images
