#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/data/images/image.hpp"

// The interface between the decoders of the formats and decode_image.
namespace pipeline::images {

using Bytes = std::span<const uint8_t>;

// 1 to 8, as in EXIF; 1 where nothing is stated, or where the data are damaged: then the picture itself is
// all right.
struct Orientation {
  int value = 1;
  bool is_damaged = false;
};

// A picture as its file has it.
struct Decoded {
  int64_t width = 0, height = 0;
  int64_t channels = 3;         // 4: with alpha
  std::vector<uint8_t> pixels;  // (height, width, channels)
  Orientation orientation;

  // Takes the memory for the pixels, once the size is known to be within the limits.
  void allocate(int64_t w, int64_t h, int64_t c) {
    width = w, height = h, channels = c;
    pixels.resize(static_cast<size_t>(w * h * c));
  }
};

Decoded decode_gif(Bytes bytes, const DecodeOptions& options);
Decoded decode_jpeg(Bytes bytes, const DecodeOptions& options);
Decoded decode_png(Bytes bytes, const DecodeOptions& options);
Decoded decode_webp(Bytes bytes, const DecodeOptions& options);

// Throws ImageError unless there are pixels and no more than the options allow.
void check_size(const char* format, int64_t width, int64_t height, const DecodeOptions& options);

// "FORMAT, WxH: PROBLEM", or without a size that is not known yet (0).
ImageError broken(const char* format, int64_t width, int64_t height, const std::string& problem);

// The orientation that EXIF data state, or, where these have none, XMP data: as Pillow's exif_transpose has
// it.
Orientation stated_orientation(Bytes exif, Bytes xmp);

// The picture as it is to be looked at.
Image upright(Image image, int orientation);

}  // namespace pipeline::images
