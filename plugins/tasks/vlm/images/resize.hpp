// From a picture to what a vision encoder takes.
#pragma once

#include <array>
#include <cstdint>

#include "plugins/tasks/vlm/images/image.hpp"

namespace pipeline::vlm {

enum class ResizeMode {
  kCrop,    // the shortest side becomes `size`, then the centre is cut out: CLIP
  kSquash,  // both sides become `size`: SigLIP
  kPad      // first to a square with the mean's colour: LLaVA
};

struct ResizeOptions {
  int64_t size = 224;
  ResizeMode mode = ResizeMode::kCrop;
  // Of each channel, of values from 0 to 1; CLIP's.
  std::array<float, 3> mean = {0.48145466f, 0.4578275f, 0.40821073f};
  std::array<float, 3> deviation = {0.26862954f, 0.26130258f, 0.27577711f};
};

// Resampled bicubically, as Pillow does it (Resample.c: a kernel with a = -0.5, widened where the picture
// shrinks; fixed-point weights, first along rows, then along columns, 8 bits between).
Image resampled(const Image& image, int64_t width, int64_t height);

// (value / 255 - mean) / deviation into `out`: (3, size, size).
void resize_image(const Image& image, const ResizeOptions& options, float* out);

}  // namespace pipeline::vlm
