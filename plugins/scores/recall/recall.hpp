// How often what belongs to a picture or a text is among the nearest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace pipeline::recall {

inline constexpr std::array<int64_t, 3> kRecallAt{1, 5, 10};

struct Recall {
  std::array<double, kRecallAt.size()> at{};  // shares that are found among the first 1, 5 and 10
  double median_rank = 0;                     // from 1
  int64_t asked = 0, among = 0;

  // The 95% interval of `at[k]` (Wilson).
  std::pair<double, double> interval(size_t k) const;
};

// Pictures and their texts, (texts, D) each, normalised, in the order of the samples. `picture_of`: of each
// text the number of its picture, which several texts may share, from 0 in the order of their first text.
struct Retrieval {
  Recall texts;     // found by a picture: the nearest of its own counts
  Recall pictures;  // found by a text, among all pictures, each once
};
// A rank counts who is as near as if it were nearer, so that a model for which all is alike finds nothing.
Retrieval retrieve(const at::Tensor& pictures, const at::Tensor& texts,
                   const std::vector<int64_t>& picture_of);

// Finding a picture's caption among others, and a caption's picture.
struct CaptionRecall {
  double captions = 0;  // share of pictures whose caption scores highest
  double pictures = 0;  // share of captions whose picture does
};

// scores: row by row of the pictures, a column for each caption; picture i belongs to caption i. Captions
// that are likely whatever the picture are not preferred: what counts is how much more likely a picture makes
// one than the pictures do on average. Equal scores count as wrong.
CaptionRecall recall_of(std::span<const float> scores, size_t pictures);

}  // namespace pipeline::recall
