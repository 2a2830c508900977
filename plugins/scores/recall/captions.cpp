#include "plugins/scores/recall/captions.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pipeline::recall {

CaptionRecall recall_of(std::span<const float> scores, size_t pictures) {
  const size_t captions = pictures == 0 ? 0 : scores.size() / pictures;
  const auto score = [&](size_t picture, size_t caption) {
    return static_cast<double>(scores[picture * captions + caption]);
  };
  // log of the mean over pictures of a caption's likelihood
  std::vector<double> usual(captions);
  for (size_t c = 0; c < captions; ++c) {
    double most = score(0, c), sum = 0;
    for (size_t p = 1; p < pictures; ++p) most = std::max(most, score(p, c));
    for (size_t p = 0; p < pictures; ++p) sum += std::exp(score(p, c) - most);
    usual[c] = most + std::log(sum / static_cast<double>(pictures));
  }
  CaptionRecall recall;  // a NaN is never best
  for (size_t i = 0; i < pictures; ++i) {
    bool caption_is_best = true, picture_is_best = true;
    for (size_t j = 0; j < captions; ++j)
      if (j != i && !(score(i, j) - usual[j] < score(i, i) - usual[i])) caption_is_best = false;
    for (size_t j = 0; j < pictures; ++j)
      if (j != i && !(score(j, i) < score(i, i))) picture_is_best = false;
    recall.captions += caption_is_best;
    recall.pictures += picture_is_best;
  }
  if (pictures > 0) {
    recall.captions /= static_cast<double>(pictures);
    recall.pictures /= static_cast<double>(pictures);
  }
  return recall;
}

}  // namespace pipeline::recall
