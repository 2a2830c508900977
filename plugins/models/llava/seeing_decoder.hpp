// A language model that generates after prompts with pictures.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

#include <cstdint>
#include <utility>

#include "language/language_model.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::llava {

// In the prompts, tokens below 0 are rows of features of pictures. `features`: (R, C), all those of the
// prompts in order, which are embedded once, all together; undefined: none.
class SeeingDecoder : public generation::DecoderModel {
 public:
  SeeingDecoder(const language::LanguageModel& model, at::Tensor features)
      : model_(model), features_(std::move(features)) {}

  int64_t max_tokens() const override { return model_.max_tokens(); }
  int64_t positions_change_after() const override { return model_.positions_change_after(); }
  int64_t layer_count() const override { return model_.layer_count(); }
  int64_t width() const override { return model_.width(); }
  int64_t heads() const override { return model_.heads(); }
  int64_t key_heads() const override { return model_.key_heads(); }
  transformer::AttentionLayout attention(int64_t layer) const override { return model_.attention(layer); }
  int64_t head_width() const override { return model_.head_width(); }
  at::Device device() const override { return model_.device(); }
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions) const override {
    if (!features_.defined()) return model_.embed(tokens, positions);
    const at::Tensor rows = tokens.lt(0).nonzero().squeeze(1);
    if (rows.numel() == 0) return model_.embed(tokens, positions);
    TORCH_CHECK(rows.numel() == features_.size(0), "prompts with ", rows.numel(),
                " rows for pictures, which have ", features_.size(0));
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
  at::Tensor features_;
};

}  // namespace pipeline::llava
