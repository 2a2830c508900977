// Vision encoder, projector and language model as one, in LLaVA's shape.
#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "language/language_model.hpp"
#include "plugins/models/vision/vision_tower.hpp"
#include "plugins/tasks/vlm/model/feature_cache.hpp"

namespace pipeline::vlm {

struct VlmConfig {
  vision::Config vision;
  language::Config language;
  adapters::LoraConfig lora = {};
  int64_t projector_layers = 2;  // 1: linear; 2: a GELU between two

  void check() const;
};

// Sequences in which some rows are a picture's patches instead of tokens.
struct VlmBatch {
  transformer::PackedBatch packed;  // where a patch is, the token is 0
  at::Tensor pixels;                // (B, 3, S, S); undefined: none are needed
  at::Tensor picture_rows;          // (pictures * patches) int64: the rows of packed that they take, in order
  // With a cache of features: what identifies each picture, and where it is, at an index of pixels or, with a
  // minus and one less, of `known`. Without: empty, and all are in pixels, in order.
  std::vector<files::Hash128> keys;
  std::vector<int64_t> places;
  at::Tensor known;  // (K, patches, hidden_size): features of pictures; undefined: none

  bool has_pictures() const { return picture_rows.defined() && picture_rows.numel() > 0; }

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
    visit(pixels);
    visit(known);
    visit(picture_rows);
  }
};

// LLaVA (Liu et al., arXiv:2304.08485): a picture's patch features go through the projector into the language
// model's sequence, in place of one placeholder. Parameters are named "vision.", "projector.", "language.";
// units are the vision tower's, the projector, the language model's, in this order.
class Vlm {
 public:
  static constexpr bool kOwnPrecision = true;

  // `rule`: see ParameterRegistry; freezes parts.
  Vlm(const VlmConfig& config, ParameterRegistry::Rule rule = nullptr);

  bool vision_is_frozen() const;
  // From now on a batch's pictures may come from there. Only while the vision encoder's values do not change.
  void set_cache(std::shared_ptr<FeatureCache> cache) { cache_ = std::move(cache); }

  const VlmConfig& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  // See LanguageModel::loss().
  LossSum loss(const VlmBatch& batch, const ForwardPass& pass,
               const language::LossDetails& details = {}) const;
  // Logits of the given rows, (R, vocabulary) fp32. No gradients.
  at::Tensor logits(const VlmBatch& batch, const at::Tensor& rows, const ForwardPass& pass) const;
  // What the language model sees of the batch's pictures: (pictures * patches, C).
  at::Tensor features(const VlmBatch& batch, const ForwardPass& pass) const;
  double flops(const VlmBatch& batch) const;

  const vision::Tower& vision() const { return *vision_; }
  const language::LanguageModel& language() const { return *language_; }
  language::LanguageModel& language() { return *language_; }

 private:
  transformer::Inserted inserted(const VlmBatch& batch, const ForwardPass& pass) const;
  uint32_t projector_unit() const { return vision_->units(); }
  at::Tensor projected(const at::Tensor& features) const;
  at::Tensor seen(const VlmBatch& batch, const ForwardPass& pass) const;
  at::Tensor encoded(const at::Tensor& pixels, const ForwardPass& pass) const;

  VlmConfig config_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<vision::Tower> vision_;
  transformer::Linear first_, second_;  // of the projector
  std::optional<language::LanguageModel> language_;
  std::shared_ptr<FeatureCache> cache_;
};

}  // namespace pipeline::vlm
