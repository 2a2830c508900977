#pragma once

#include "plugins/data/images/image.hpp"

namespace pipeline::images {

// A part of a picture, in pixels.
struct Window {
  int64_t left = 0, top = 0, width = 0, height = 0;
};

enum class Filter : uint8_t { kBicubic, kBilinear, kLanczos };

// Pillow's image.resize((width, height), filter), bit for bit; of the result only the window, and only its
// pixels are computed.
Image resample(const Image& image, int64_t width, int64_t height, const Window& window,
               Filter filter = Filter::kBicubic);

}  // namespace pipeline::images
