// Texts as vectors: Sentence-BERT (Reimers and Gurevych, arXiv:1908.10084).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "adapters/lora_options.hpp"
#include "language/language_model.hpp"
#include "plugins/models/encoder/encoder.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::sentence_encoder {

// Which rows of a text become its vector.
enum class Pooling { kMean, kFirst, kLast };
// As sentence-transformers calls them.
constexpr std::array<std::pair<const char*, Pooling>, 3> kPoolings{
    {{"mean", Pooling::kMean}, {"cls", Pooling::kFirst}, {"lasttoken", Pooling::kLast}}};

struct Config {
  std::string kind = "bert";  // see encoder::text_encoder()
  encoder::Config encoder;
  std::optional<language::Config> language = std::nullopt;  // without a head, in place of the encoder
  Pooling pooling = Pooling::kMean;
  int64_t projection_dim = 0;  // of a linear layer behind it; 0: there is none
  bool projection_has_bias = true, projection_is_tanh = false;
  bool normalizes = true;  // vectors have length 1

  const encoder::Architecture& row() const { return encoder::text_encoder(kind); }
  int64_t pooled_width() const { return language ? language->hidden_size : encoder.hidden_size; }
  int64_t width() const { return projection_dim > 0 ? projection_dim : pooled_width(); }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault.
  void check() const;
};

// The encoder as PEFT has it.
adapters::AdaptedModel adapted_encoder(const Config& config);

// An encoder, or the layers of a language model, and what makes vectors of the last one. Parameters carry the
// names of the encoder's folder, but that query, key and value are one, or those of LanguageModel; and
// "projection". Unit 0 is the embedding, each layer is one, and the projection.
class SentenceEncoder {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit SentenceEncoder(const Config& config, const adapters::LoraOptions& lora = {});

  const Config& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }
  language::LanguageModel* language() { return language_.get(); }  // nullptr: it is an encoder
  // Of an encoder, not of a language model.
  const adapters::LoraOptions& lora() const { return lora_; }
  const encoder::Encoder& encoder() const { return *encoder_; }

  // (texts, D) fp32, of length 1 where the configuration says so. Differentiable.
  at::Tensor vectors(const transformer::PackedBatch& texts, const ForwardPass& pass) const;

  double flops(const transformer::PackedBatch& texts) const;  // forward and backward

 private:
  at::Tensor last_layer(const transformer::PackedBatch& texts, const std::vector<int64_t>& rows,
                        const ForwardPass& pass) const;
  at::Tensor pooled(const at::Tensor& rows, const transformer::Ragged& texts) const;

  uint32_t projection_unit() const {
    return language_ ? static_cast<uint32_t>(language_->layer_count() + 1) : encoder_->units();
  }

  Config config_;
  adapters::LoraOptions lora_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<encoder::Encoder> encoder_;
  std::shared_ptr<language::LanguageModel> language_;  // nullptr: encoder_
  transformer::Linear projection_;
};

// x / |x|, by rows; a row of zeros stays one.
at::Tensor of_length_1(const at::Tensor& x);

}  // namespace pipeline::sentence_encoder
