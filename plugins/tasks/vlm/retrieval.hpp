// Finding a picture's caption among others, and a caption's picture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generation/decoder.hpp"

namespace pipeline::tasks::vlm {

// For one picture, the log-likelihood of each caption after it: (captions). `prompt`: what stands before a
// caption, the picture's patches as tokens below 0; `captions`: their tokens, the end included.
std::vector<float> caption_scores(const generation::DecoderModel& model, const std::vector<int64_t>& prompt,
                                  const std::vector<std::vector<int64_t>>& captions, at::ScalarType compute);

}  // namespace pipeline::tasks::vlm
