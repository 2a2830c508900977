// Vision encoder, projector and language model as one, in LLaVA's shape.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "language/language_model.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/images/tiles.hpp"
#include "plugins/models/vision/vision_tower.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::llava {

// A picture of one square or several as the encoder sees it.
struct PictureFeatures {
  at::Tensor squares;             // (squares, patches, hidden_size)
  int64_t width = 0, height = 0;  // of the picture itself
};

// Features of pictures, kept by whoever uses the model. The methods are called from the main thread; find()
// from any.
class FeatureStore {
 public:
  virtual ~FeatureStore() = default;

  // Whether open() was called, with a hash of the encoder's weights: from then on features are found and
  // kept.
  virtual bool is_open() const = 0;
  virtual void open(const files::Hash128& weights) = 0;

  // The features, on the CPU; with squares undefined if they are not there.
  virtual PictureFeatures find(const files::Hash128& picture) const = 0;
  // Takes features that are on a device, once that has computed them.
  virtual void put(const files::Hash128& picture, const PictureFeatures& features) = 0;
  // Counts features for the log.
  virtual void count(uint64_t found, uint64_t made) = 0;
};

struct VlmConfig {
  vision::Config vision;
  language::Config language;
  adapters::LoraConfig lora = {};
  int64_t projector_layers = 2;  // 1: linear; 2: a GELU between two
  // Not empty: pictures are seen as a whole and, larger, in a grid of squares, one of these (LLaVA-NeXT).
  std::vector<images::Grid> grids = {};
  int64_t scale_factor = 1;  // of Idefics3's pixel shuffle: so many patches a side become one row of features
  bool projector_bias = true;

  int64_t rows_of_square() const { return vision.rows() / (scale_factor * scale_factor); }

  void check() const;
};

// In an arrangement of rows of features: the learnt one that ends a line of a picture of several squares.
inline constexpr int64_t kNewline = -1;

// Sequences in which some rows are features of pictures instead of tokens. The vision encoder sees a picture
// as one square or several; in NaFlex each patch is a square.
struct VlmBatch {
  transformer::PackedBatch packed;         // where a row of features is, the token is 0
  at::Tensor pixels;                       // (T, 3, S, S): squares of pictures; undefined: none are needed
  std::vector<vision::PatchGrid> patches;  // NaFlex's: of each picture
  // (F) int64: the rows of features(), each the index of a row of the projected squares or, from their number
  // on, of so many newlines; undefined: all of them, in order.
  at::Tensor arranged;
  int64_t newlines = 0;
  at::Tensor picture_rows;  // (R) int64: the rows of packed that have features
  at::Tensor shown;         // (R) int64: which rows of features() are there; undefined: all, in order
  // With a cache of features: of each picture what identifies it, its size, how many squares it is, and the
  // place of the first one, an index of pixels or, with a minus and one less, of `known`. Without: empty, and
  // all are in pixels, in order.
  struct Cached {
    files::Hash128 key;
    int64_t width = 0, height = 0, squares = 1, place = 0;
  };
  std::vector<Cached> cached;
  at::Tensor known;  // (K, patches, hidden_size): features of squares; undefined: none

  bool has_pictures() const { return pixels.defined() || known.defined(); }

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
    visit(pixels);
    visit(known);
    visit(arranged);
    visit(picture_rows);
    visit(shown);
  }
};

// LLaVA (Liu et al., arXiv:2304.08485): a picture's patch features go through the projector into the language
// model's sequence, in place of one placeholder. LLaVA-NeXT: those of a grid follow the whole's, line by
// line, each line with a learnt vector at its end. Idefics3: neighbouring patches are joined to one row
// before the projector, a matrix. Parameters are named "vision.", "projector.", "language."; units are the
// vision tower's, the projector, the language model's, in this order.
class Vlm {
 public:
  static constexpr bool kOwnPrecision = true;

  // `rule`: see ParameterRegistry; freezes parts.
  Vlm(const VlmConfig& config, ParameterRegistry::Rule rule = nullptr);

  bool vision_is_frozen() const;
  // Lets a batch's pictures come from `cache`. Only while the vision encoder's values do not change.
  void set_cache(std::shared_ptr<FeatureStore> cache) { cache_ = std::move(cache); }

  const VlmConfig& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  // See LanguageModel::loss().
  LossSum loss(const VlmBatch& batch, const ForwardPass& pass,
               const language::LossDetails& details = {}) const;
  // Logits of the given rows, (R, vocabulary) fp32. No gradients.
  at::Tensor logits(const VlmBatch& batch, const at::Tensor& rows, const ForwardPass& pass) const;
  // What the language model sees of the batch's pictures: (F, C).
  at::Tensor features(const VlmBatch& batch, const ForwardPass& pass) const;
  double flops(const VlmBatch& batch) const;

  const vision::Tower& vision() const { return *vision_; }
  const language::LanguageModel& language() const { return *language_; }
  language::LanguageModel& language() { return *language_; }

 private:
  transformer::Inserted inserted(const VlmBatch& batch, const ForwardPass& pass) const;
  uint32_t projector_unit() const { return vision_->units(); }
  at::Tensor joined(const at::Tensor& features) const;
  at::Tensor projected(const at::Tensor& features) const;
  at::Tensor arranged(const at::Tensor& projected, const VlmBatch& batch) const;
  at::Tensor seen(const VlmBatch& batch, const ForwardPass& pass) const;
  at::Tensor encoded(const at::Tensor& pixels, const std::vector<vision::PatchGrid>& patches,
                     const ForwardPass& pass) const;

  VlmConfig config_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<vision::Tower> vision_;
  transformer::Linear first_, second_;  // of the projector
  at::Tensor newline_;                  // (C); undefined: pictures have no grids
  std::optional<language::LanguageModel> language_;
  std::shared_ptr<FeatureStore> cache_;
};

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
