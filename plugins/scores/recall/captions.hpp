// Finding a picture's caption among others, and a caption's picture.
#pragma once

#include <cstddef>
#include <span>

namespace pipeline::recall {

struct CaptionRecall {
  double captions = 0;  // share of pictures whose caption scores highest
  double pictures = 0;  // share of captions whose picture does
};

// scores: row by row of the pictures, a column for each caption; picture i belongs to caption i. Captions
// that are likely whatever the picture are not preferred: what counts is how much more likely a picture makes
// one than the pictures do on average. Equal scores count as wrong.
CaptionRecall recall_of(std::span<const float> scores, size_t pictures);

}  // namespace pipeline::recall
