// A language model that generates after prompts with pictures.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

#include <cstdint>
#include <vector>

#include "language/language_model.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::vlm {

// In the prompts, tokens below 0 are patches of pictures. `features`: (B, P, C), of B pictures; pictures[i]
// is the i-th one in the prompts, which are embedded once, all together.
class SeeingDecoder : public generation::DecoderModel {
 public:
  SeeingDecoder(const language::LanguageModel& model, const at::Tensor& features,
                const std::vector<int64_t>& pictures)
      : model_(model), pictures_(static_cast<int64_t>(pictures.size())) {
    if (pictures_ == 0) return;
    features_ = features.index_select(0, transformer::to_device(pictures, features.device())).flatten(0, 1);
  }

  int64_t max_tokens() const override { return model_.max_tokens(); }
  int64_t layer_count() const override { return model_.layer_count(); }
  int64_t width() const override { return model_.width(); }
  int64_t heads() const override { return model_.heads(); }
  int64_t key_heads() const override { return model_.key_heads(); }
  transformer::AttentionLayout attention(int64_t layer) const override { return model_.attention(layer); }
  int64_t head_width() const override { return model_.head_width(); }
  at::Device device() const override { return model_.device(); }
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions) const override {
    if (pictures_ == 0) return model_.embed(tokens, positions);
    const at::Tensor rows = tokens.lt(0).nonzero().squeeze(1);
    if (rows.numel() == 0) return model_.embed(tokens, positions);
    TORCH_CHECK(rows.numel() == features_.size(0), "prompts with ", rows.numel(), " patches for ",
                features_.size(0), " features");
    return model_.embed_with(tokens.clamp_min(0), positions, {rows, features_});
  }
  at::Tensor layer(int64_t index, const at::Tensor& x, const at::Tensor& positions, at::ScalarType compute,
                   const Attention& attend) const override {
    return model_.layer(index, x, positions, compute, attend);
  }
  at::Tensor logits_of(const at::Tensor& x, at::ScalarType compute) const override {
    return model_.logits_of(x, compute);
  }

 private:
  const language::LanguageModel& model_;
  int64_t pictures_;
  at::Tensor features_;
};

}  // namespace pipeline::vlm
