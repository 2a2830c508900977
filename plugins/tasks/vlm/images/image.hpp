// Pictures in memory, and how files become them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipeline::vlm {

// RGB, row by row, 3 bytes a pixel.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

// What is wrong with a picture: its format, what was seen, what is allowed.
class ImageError : public std::runtime_error {
 public:
  explicit ImageError(const std::string& what) : std::runtime_error(what) {}
};

struct DecodeOptions {
  uint64_t max_pixels = 178956970;                                       // twice Pillow's MAX_IMAGE_PIXELS
  std::optional<std::array<uint8_t, 3>> background = {{255, 255, 255}};  // nullopt: alpha is dropped
};

// By content, not by name. Throws ImageError. Safe for any thread.
Image decode_image(std::span<const std::byte> bytes, const DecodeOptions& options = {});

}  // namespace pipeline::vlm
