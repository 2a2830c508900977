// Texts as vectors: Sentence-BERT (Reimers and Gurevych, arXiv:1908.10084).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

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
  Pooling pooling = Pooling::kMean;
  int64_t projection_dim = 0;  // of a linear layer behind it; 0: there is none
  bool projection_has_bias = true, projection_is_tanh = false;
  bool normalizes = true;  // vectors have length 1

  const encoder::Architecture& row() const { return encoder::text_encoder(kind); }
  int64_t width() const { return projection_dim > 0 ? projection_dim : encoder.hidden_size; }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault.
  void check() const;
};

// An encoder and what makes vectors of its last layer. Parameters carry the names of the encoder's folder,
// but that query, key and value are one, and "projection". Unit 0 is the embedding, each layer is one, and
// the projection.
class SentenceEncoder {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit SentenceEncoder(const Config& config, ParameterRegistry::Rule rule = nullptr);

  const Config& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  // (texts, D) fp32, of length 1 where the configuration says so. Differentiable.
  at::Tensor vectors(const transformer::PackedBatch& texts, const ForwardPass& pass) const;

  double flops(const transformer::PackedBatch& texts) const;  // forward and backward

 private:
  at::Tensor pooled(const at::Tensor& rows, const transformer::Ragged& texts) const;

  Config config_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<encoder::Encoder> encoder_;
  transformer::Linear projection_;
};

// x / |x|, by rows; a row of zeros stays one.
at::Tensor of_length_1(const at::Tensor& x);

}  // namespace pipeline::sentence_encoder
