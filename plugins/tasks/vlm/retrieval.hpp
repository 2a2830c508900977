// Finding a picture's caption among others, and a caption's picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generation/decoder.hpp"

namespace pipeline::vlm {

// For one picture, the log-likelihood of each caption after it: (captions). `prompt`: what stands before a
// caption, the picture's patches as tokens below 0; `captions`: their tokens, the end included.
std::vector<float> caption_scores(const generation::DecoderModel& model, const std::vector<int64_t>& prompt,
                                  const std::vector<std::vector<int64_t>>& captions, at::ScalarType compute);

struct Recall {
  double captions = 0;  // share of pictures whose caption scores highest
  double pictures = 0;  // share of captions whose picture does
};

// scores: row by row of the pictures, a column for each caption; picture i belongs to caption i. Captions
// that are likely whatever the picture are not preferred: what counts is how much more likely a picture makes
// one than the pictures do on average. Equal scores count as wrong.
Recall recall_of(std::span<const float> scores, size_t pictures);

}  // namespace pipeline::vlm
