#pragma once

#include <array>
#include <cstdint>

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

// How a picture becomes a square.
enum class ResizeMode : uint8_t {
  kCrop,    // CLIP: scaled until its shortest edge is as wanted, and cut around the centre
  kSquash,  // SigLIP: scaled to the square, whatever its shape
  kPad,     // LLaVA: padded with the mean colour to a square around it, and then as kCrop
};

struct ResizeOptions {
  int64_t size = 224;  // of the square that the model sees
  ResizeMode mode = ResizeMode::kCrop;
  // Mean and standard deviation of each channel, for values from 0 to 1: those of OpenAI's CLIP.
  std::array<double, 3> mean = {0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> deviation = {0.26862954, 0.26130258, 0.27577711};
  Filter filter = Filter::kBicubic;
  int64_t shortest_edge = 0;  // after scaling, if it is not `size`; kSquash does without
};

Image black(int64_t width, int64_t height);
// Puts a picture into a larger one: its left upper corner is at this place.
void paste(const Image& picture, Image& into, int64_t left, int64_t top);

// The square of size x size pixels, as transformers' processors make it with Pillow. Where a scaled picture
// is smaller it lies in the middle of black. Throws ImageError if padding makes the picture too large.
Image squared(const Image& image, const ResizeOptions& options);

// A square's pixels as (3, size, size) numbers, each (value / 255 - mean) / deviation.
void normalize(const Image& square, const ResizeOptions& options, float* out);

// The picture's square as such numbers.
void resize_image(const Image& image, const ResizeOptions& options, float* out);

}  // namespace pipeline::images
