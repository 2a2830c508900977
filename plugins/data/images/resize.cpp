#include "plugins/data/images/resize.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pipeline::images {
namespace {

// LLaVA's expand2square.
Image padded(const Image& image, const std::array<double, 3>& mean) {
  const int64_t side = std::max(image.width, image.height);
  if (static_cast<uint64_t>(side * side) > kMaxPixels) {
    throw ImageError(
        fmt::format("{}x{} pixels, padded to a square, are {} pixels, and {} are allowed: scale it down "
                    "or cut it",
                    image.width, image.height, side * side, kMaxPixels));
  }
  Image result = black(side, side);
  for (size_t i = 0; i < result.pixels.size(); ++i)
    result.pixels[i] = static_cast<uint8_t>(mean[i % 3] * 255);
  paste(image, result, (side - image.width) / 2, (side - image.height) / 2);
  return result;
}

// Where along one side the square of `size` and a picture of `scaled` pixels overlap, as transformers'
// center_crop centres them: an odd pixel more is cut off at the end, and padded at the start.
struct Overlap {
  int64_t from, to, length;  // in the picture, in the square
  Overlap(int64_t scaled, int64_t size)
      : from(scaled >= size ? (scaled - size) / 2 : 0),
        to(scaled >= size ? 0 : (size - scaled + 1) / 2),
        length(std::min(scaled, size)) {}
};

Image cropped(const Image& image, const ResizeOptions& options) {
  const int64_t size = options.size, edge = options.shortest_edge > 0 ? options.shortest_edge : size;
  const int64_t shortest = std::min(image.width, image.height);
  const int64_t width = image.width * edge / shortest, height = image.height * edge / shortest;
  const Overlap x(width, size), y(height, size);
  Image inside = resample(image, width, height, {x.from, y.from, x.length, y.length}, options.filter);
  if (x.length == size && y.length == size) return inside;
  Image result = black(size, size);
  paste(inside, result, x.to, y.to);
  return result;
}

}  // namespace

Image black(int64_t width, int64_t height) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
}

void paste(const Image& picture, Image& into, int64_t left, int64_t top) {
  for (int64_t y = 0; y < picture.height; ++y)
    std::copy_n(picture.pixels.data() + y * picture.width * 3, picture.width * 3,
                into.pixels.data() + ((top + y) * into.width + left) * 3);
}

Image squared(const Image& image, const ResizeOptions& options) {
  const int64_t size = options.size;
  if (options.mode == ResizeMode::kSquash)
    return resample(image, size, size, {0, 0, size, size}, options.filter);
  if (options.mode == ResizeMode::kPad && image.width != image.height)
    return cropped(padded(image, options.mean), options);
  return cropped(image, options);
}

void normalize(const Image& square, const ResizeOptions& options, float* out) {
  const auto pixels = static_cast<size_t>(options.size * options.size);
  for (size_t c = 0; c < 3; ++c) {
    // Rounded where transformers rounds. There are no more than 256 answers.
    std::array<float, 256> normalized;
    for (size_t value = 0; value < 256; ++value) {
      const auto rescaled = static_cast<float>(static_cast<double>(value) * (1.0 / 255));
      normalized[value] =
          (rescaled - static_cast<float>(options.mean[c])) / static_cast<float>(options.deviation[c]);
    }
    float* const plane = out + c * pixels;
    for (size_t i = 0; i < pixels; ++i) plane[i] = normalized[square.pixels[3 * i + c]];
  }
}

void resize_image(const Image& image, const ResizeOptions& options, float* out) {
  normalize(squared(image, options), options, out);
}

}  // namespace pipeline::images
