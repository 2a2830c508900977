#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipeline::images {

// RGB, row by row, three bytes a pixel.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;

  bool operator==(const Image&) const = default;
};

// Why bytes are no picture that can be used: the format, what is wrong, the sizes seen and allowed. Whoever
// read the bytes says where they came from.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Color = std::array<uint8_t, 3>;

// Pillow refuses a larger picture as a decompression bomb (twice Image.MAX_IMAGE_PIXELS). As RGB one of this
// size takes 512 MiB, and each worker thread may hold one.
inline constexpr uint64_t kMaxPixels = 178'956'970;
// The longest side that JPEG and GIF can have. It bounds what a strip of few pixels costs to resize.
inline constexpr int64_t kMaxSide = 65'535;

struct DecodeOptions {
  uint64_t max_pixels = kMaxPixels;
  int64_t max_side = kMaxSide;
  // The colour behind transparent pixels. Without it, alpha is dropped, as Pillow's convert("RGB") does:
  // transparent pixels then show the colour that they happen to have, black in many files.
  std::optional<Color> background = Color{255, 255, 255};
  // Told what a picture loses although it can be used; optional.
  std::function<void(const std::string&)> note = nullptr;
};

// The picture in a JPEG, PNG, WebP or GIF file, told apart by content; the first frame of an animation. It is
// upright: the orientation that EXIF data state is applied. Pixels are those of Pillow's convert("RGB") and
// ImageOps.exif_transpose. Throws ImageError: for unknown formats, broken and truncated files, and sizes
// beyond the limits, which are checked before memory for pixels is taken. Thread-safe.
Image decode_image(std::span<const std::byte> bytes, const DecodeOptions& options = {});

// A PNG file with these pixels.
std::string encode_png(const Image& image);

}  // namespace pipeline::images
