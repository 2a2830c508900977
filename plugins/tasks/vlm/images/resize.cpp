#include "plugins/tasks/vlm/images/resize.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pipeline::vlm {
namespace {

constexpr int kBits = 32 - 8 - 2;  // of a weight's fraction

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// What each output pixel takes from the input along one axis: pixels first .. first + count - 1.
struct Weights {
  int64_t most = 0;  // of count
  std::vector<int64_t> first, count;
  std::vector<int32_t> values;  // (output pixels, most)
};

Weights weights_for(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0),
               support = 2 * stretch;
  Weights result;
  result.most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  result.values.resize(static_cast<size_t>(to * result.most));
  std::vector<double> row;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0),
                  end = std::min(static_cast<int64_t>(centre + support + 0.5), from);
    row.clear();
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      row.push_back(bicubic((static_cast<double>(x) - centre + 0.5) / stretch));
      sum += row.back();
    }
    for (size_t k = 0; k < row.size(); ++k) {
      const double value = (sum != 0 ? row[k] / sum : row[k]) * (1 << kBits);
      result.values[static_cast<size_t>(i * result.most) + k] =
          static_cast<int32_t>(value < 0 ? value - 0.5 : value + 0.5);
    }
    result.first.push_back(first);
    result.count.push_back(end - first);
  }
  return result;
}

uint8_t clipped(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

Image along_rows(const Image& image, int64_t width) {
  if (width == image.width) return image;
  const Weights weights = weights_for(image.width, width);
  Image result{width, image.height, std::vector<uint8_t>(static_cast<size_t>(3 * width * image.height))};
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* const row = image.pixels.data() + 3 * y * image.width;
    uint8_t* to = result.pixels.data() + 3 * y * width;
    for (int64_t x = 0; x < width; ++x, to += 3) {
      const int32_t* const w = weights.values.data() + x * weights.most;
      const uint8_t* from = row + 3 * weights.first[static_cast<size_t>(x)];
      int32_t r = 1 << (kBits - 1), g = r, b = r;
      for (int64_t k = 0; k < weights.count[static_cast<size_t>(x)]; ++k, from += 3) {
        r += w[k] * from[0];
        g += w[k] * from[1];
        b += w[k] * from[2];
      }
      to[0] = clipped(r), to[1] = clipped(g), to[2] = clipped(b);
    }
  }
  return result;
}

Image along_columns(const Image& image, int64_t height) {
  if (height == image.height) return image;
  const Weights weights = weights_for(image.height, height);
  const int64_t bytes = 3 * image.width;
  Image result{image.width, height, std::vector<uint8_t>(static_cast<size_t>(bytes * height))};
  std::vector<int32_t> sums(static_cast<size_t>(bytes));
  for (int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (int64_t k = 0; k < weights.count[static_cast<size_t>(y)]; ++k) {
      const int32_t w = weights.values[static_cast<size_t>(y * weights.most + k)];
      const uint8_t* const from = image.pixels.data() + (weights.first[static_cast<size_t>(y)] + k) * bytes;
      for (int64_t i = 0; i < bytes; ++i) sums[static_cast<size_t>(i)] += w * from[i];
    }
    uint8_t* const to = result.pixels.data() + y * bytes;
    for (int64_t i = 0; i < bytes; ++i) to[i] = clipped(sums[static_cast<size_t>(i)]);
  }
  return result;
}

Image padded_to_square(const Image& image, const std::array<float, 3>& mean) {
  const int64_t side = std::max(image.width, image.height);
  Image result{side, side, std::vector<uint8_t>(static_cast<size_t>(3 * side * side))};
  for (int64_t i = 0; i < side * side; ++i)
    for (int64_t c = 0; c < 3; ++c)
      result.pixels[static_cast<size_t>(3 * i + c)] =
          static_cast<uint8_t>(mean[static_cast<size_t>(c)] * 255);
  const int64_t left = (side - image.width) / 2, top = (side - image.height) / 2;
  for (int64_t y = 0; y < image.height; ++y)
    std::copy_n(image.pixels.data() + 3 * y * image.width, 3 * image.width,
                result.pixels.data() + 3 * ((y + top) * side + left));
  return result;
}

}  // namespace

Image resampled(const Image& image, int64_t width, int64_t height) {
  return along_columns(along_rows(image, width), height);
}

void resize_image(const Image& image, const ResizeOptions& options, float* out) {
  const int64_t size = options.size;
  Image whole;
  if (options.mode == ResizeMode::kPad) {
    whole = resampled(padded_to_square(image, options.mean), size, size);
  } else if (options.mode == ResizeMode::kSquash) {
    whole = resampled(image, size, size);
  } else {
    const int64_t shortest = std::min(image.width, image.height);
    whole = resampled(image, std::max(image.width * size / shortest, size),
                      std::max(image.height * size / shortest, size));
  }
  const int64_t left = (whole.width - size) / 2, top = (whole.height - size) / 2;
  for (int64_t c = 0; c < 3; ++c) {
    const float mean = options.mean[static_cast<size_t>(c)],
                deviation = options.deviation[static_cast<size_t>(c)];
    for (int64_t y = 0; y < size; ++y) {
      const uint8_t* from = whole.pixels.data() + 3 * ((y + top) * whole.width + left) + c;
      for (int64_t x = 0; x < size; ++x, from += 3)
        *out++ = (static_cast<float>(*from) / 255.0f - mean) / deviation;
    }
  }
}

}  // namespace pipeline::vlm
