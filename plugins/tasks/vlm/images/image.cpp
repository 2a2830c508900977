#include "plugins/tasks/vlm/images/image.hpp"

#include <png.h>

#include <cstring>

namespace pipeline::vlm {
namespace {

Image decode_png(std::span<const std::byte> bytes, const DecodeOptions& options) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto check = [&](int ok) {
    if (ok != 0) return;
    const std::string problem = png.message;
    png_image_free(&png);
    throw ImageError("PNG: " + problem);
  };
  check(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()));
  if (uint64_t{png.width} * png.height > options.max_pixels) {
    png_image_free(&png);
    throw ImageError("PNG: " + std::to_string(png.width) + " x " + std::to_string(png.height) +
                     " pixels, at most " + std::to_string(options.max_pixels) + " are allowed");
  }
  png.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(png));
  check(png_image_finish_read(&png, nullptr, rgba.data(), 0, nullptr));
  Image image{png.width, png.height, std::vector<uint8_t>(size_t{3} * png.width * png.height)};
  for (size_t i = 0; i < rgba.size() / 4; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const unsigned value = rgba[4 * i + c], alpha = rgba[4 * i + 3];
      image.pixels[3 * i + c] =
          options.background
              ? static_cast<uint8_t>((value * alpha + (*options.background)[c] * (255 - alpha) + 127) / 255)
              : static_cast<uint8_t>(value);
    }
  }
  return image;
}

}  // namespace

Image decode_image(std::span<const std::byte> bytes, const DecodeOptions& options) {
  constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
  if (bytes.size() >= sizeof kPng && std::memcmp(bytes.data(), kPng, sizeof kPng) == 0)
    return decode_png(bytes, options);
  throw ImageError("is no picture in a known format (PNG)");
}

}  // namespace pipeline::vlm
