#include "plugins/data/images/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plugins/data/images/formats.hpp"

namespace pipeline::images {
namespace {

bool has_at(Bytes bytes, size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<int64_t>(at),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

Decoded decode(Bytes bytes, const DecodeOptions& options) {
  if (has_at(bytes, 0, "\xff\xd8\xff")) return decode_jpeg(bytes, options);
  if (has_at(bytes, 0, "\x89PNG\r\n\x1a\n")) return decode_png(bytes, options);
  if (has_at(bytes, 0, "RIFF") && has_at(bytes, 8, "WEBP")) return decode_webp(bytes, options);
  if (has_at(bytes, 0, "GIF87a") || has_at(bytes, 0, "GIF89a")) return decode_gif(bytes, options);
  if (bytes.empty()) throw ImageError("no picture: empty");
  throw ImageError(
      fmt::format("no picture in a known format: it starts with the bytes {:02x}; JPEG, PNG, WebP and "
                  "GIF are read: convert it to one of them",
                  fmt::join(bytes.first(std::min<size_t>(bytes.size(), 8)), " ")));
}

// Rounded as Pillow's paste with a mask does.
uint8_t blend(uint32_t color, uint32_t under, uint32_t alpha) {
  const uint32_t sum = color * alpha + under * (255 - alpha) + 128;
  return static_cast<uint8_t>((sum + (sum >> 8)) >> 8);
}

// In place: four bytes a pixel become three.
void remove_alpha(std::vector<uint8_t>& pixels, const std::optional<Color>& background) {
  const uint8_t* in = pixels.data();
  uint8_t* out = pixels.data();
  for (size_t left = pixels.size() / 4; left > 0; --left, in += 4, out += 3) {
    const uint8_t alpha = background ? in[3] : 255;
    for (size_t c = 0; c < 3; ++c) out[c] = alpha == 255 ? in[c] : blend(in[c], (*background)[c], alpha);
  }
  pixels.resize(pixels.size() / 4 * 3);
}

}  // namespace

void check_size(const char* format, int64_t width, int64_t height, const DecodeOptions& options) {
  if (width <= 0 || height <= 0) {
    throw ImageError(fmt::format("{}: {}x{} pixels: it has none to show", format, width, height));
  }
  if (width > options.max_side || height > options.max_side) {
    throw ImageError(fmt::format("{}: {}x{} pixels, and a side may have {}: scale it down", format, width,
                                 height, options.max_side));
  }
  if (static_cast<uint64_t>(width * height) > options.max_pixels) {
    throw ImageError(
        fmt::format("{}: {}x{} are {} pixels, and {} are allowed: scale it down, or raise the limit "
                    "if it is no decompression bomb",
                    format, width, height, width * height, options.max_pixels));
  }
}

ImageError broken(const char* format, int64_t width, int64_t height, const std::string& problem) {
  if (width == 0 && height == 0) return ImageError(fmt::format("{}: {}", format, problem));
  return ImageError(fmt::format("{}, {}x{} pixels: {}", format, width, height, problem));
}

Image decode_image(std::span<const std::byte> bytes, const DecodeOptions& options) {
  Decoded decoded = decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options);
  if (decoded.channels == 4) remove_alpha(decoded.pixels, options.background);
  if (decoded.orientation.is_damaged && options.note)
    options.note("its EXIF data are damaged: if they said how to turn it, that is lost");
  return upright({decoded.width, decoded.height, std::move(decoded.pixels)}, decoded.orientation.value);
}

}  // namespace pipeline::images
