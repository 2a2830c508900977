// The losses of CLIP and SigLIP over all pairs of a step, and their gradients, in memory of some rows'
// logits.
#pragma once

#include <pipeline/torch/global_loss.hpp>

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace pipeline::two_towers {

// A row of a pair: its picture, times the scale (D), what is added to the picture's logits (1), its text (D),
// and whether there is such a pair (1): 0 where its picture is broken, and then it is no negative either.
inline int64_t pair_columns(int64_t width) { return 2 * width + 2; }

// kSoftmax: the mean of the cross entropies of finding a picture's text among all texts, and a text's picture
// among all pictures (CLIP). kSigmoid: the sum over all texts of whether they belong to a picture or not
// (SigLIP). In float32; the logits of a block of rows are in memory at a time.
class PairLoss {
 public:
  enum class Kind { kSoftmax, kSigmoid };
  explicit PairLoss(Kind kind) : kind_(kind) {}

  // The loss of each row, (G), by plain operations on all logits at once. rows: (G, columns), differentiable.
  at::Tensor all(const at::Tensor& rows) const;

  // The losses of some rows, and the gradient in these of all rows' losses. begin() comes first, once for the
  // same rows.
  void begin(const at::Tensor& rows);
  RowLoss part(const at::Tensor& rows, int64_t first, int64_t count) const;

 private:
  Kind kind_;
  // kSoftmax: (G) logarithms of the sums that the softmaxes divide by, over all texts of a picture, and over
  // all pictures of a text.
  at::Tensor of_picture_, of_text_;
};

}  // namespace pipeline::two_towers
