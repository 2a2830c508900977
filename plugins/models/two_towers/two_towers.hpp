// Pictures and texts in one space: CLIP (Radford et al., arXiv:2103.00020) and SigLIP (Zhai et al.,
// arXiv:2303.15343).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/global_loss.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "plugins/models/encoder/encoder.hpp"
#include "transformer/packed_batch.hpp"
#include "vision/vision_tower.hpp"

namespace pipeline::two_towers {

struct TwoTowersConfig {
  vision::Config vision;  // whose kind is that of all
  encoder::Config text;
  int64_t projection_dim = 512;  // D; SigLIP's is the width of its pictures
  double logit_scale = 2.6592;   // at the start: the logarithm of what multiplies similarities
  double logit_bias = -10;       // at the start, SigLIP's: added to all
  double max_logit_scale = 0;    // the scale counts at most as this; 0: as it is

  bool is_clip() const { return vision.is_clip(); }
  void check() const;
};

struct PairBatch {
  at::Tensor pixels;               // (B, 3, S, S)
  transformer::PackedBatch texts;  // B of them
};

// Normalised, (B, D) each.
struct Embedded {
  at::Tensor pictures, texts;
};

// CLIP takes the class token of pictures and projects both sides; SigLIP pools patches by attention of a
// learnt query, and a linear layer follows its text. Parameters carry the names of Hugging Face's state dict,
// but that query, key and value are one, and matrices are (in, out).
class TwoTowers {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit TwoTowers(const TwoTowersConfig& config, ParameterRegistry::Rule rule = nullptr);

  const TwoTowersConfig& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  Embedded embedded(const PairBatch& batch, const ForwardPass& pass) const;

  // What the loss is made of, pair_columns() of D: pictures times the scale, the bias, texts.
  at::Tensor scaled(const PairBatch& batch, const ForwardPass& pass) const;

  double flops(const PairBatch& batch) const;

  // Sets the scale to what it counts as, for those who know no limit.
  void limit_scale();

 private:
  struct PictureHead {  // CLIP's has norm and projection; SigLIP's has all
    transformer::Norm norm;
    at::Tensor projection;
    at::Tensor probe;
    transformer::Linear in, out;  // of its attention
    transformer::Norm mlp_norm;
    transformer::Linear up, down;
  };
  void add_picture_head();
  at::Tensor picture_states(const at::Tensor& pixels, const ForwardPass& pass) const;
  at::Tensor pooled(const at::Tensor& states, int64_t pictures, const ForwardPass& pass) const;
  at::Tensor scale() const;
  at::Tensor projected(const at::Tensor& states, int64_t pictures, const ForwardPass& pass) const;
  at::Tensor text_features(const PairBatch& batch, const ForwardPass& pass) const;

  TwoTowersConfig config_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<vision::Tower> vision_;
  std::optional<encoder::Encoder> text_;
  uint32_t picture_unit_ = 0, text_unit_ = 0;  // of what follows the towers
  PictureHead picture_;
  transformer::Norm text_norm_;
  transformer::Linear text_head_;
  at::Tensor scale_, bias_;  // SigLIP's have one dimension of 1
};

// A row of a pair: its picture, times the scale (D), what is added to the picture's logits (1), its text (D),
// and whether there is such a pair (1): 0 where its picture is broken, and then it is no negative either.
inline int64_t pair_columns(int64_t width) { return 2 * width + 2; }

// The losses of CLIP and SigLIP over all pairs of a step, and their gradients, in memory of some rows'
// logits. kSoftmax: the mean of the cross entropies of finding a picture's text among all texts, and a text's
// picture among all pictures (CLIP). kSigmoid: the sum over all texts of whether they belong to a picture or
// not (SigLIP). In float32; the logits of a block of rows are in memory at a time.
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
