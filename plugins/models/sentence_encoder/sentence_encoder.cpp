#include "plugins/models/sentence_encoder/sentence_encoder.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "hugging_face/config_file.hpp"
#include "language/folder.hpp"
#include "plugins/models/encoder/text_folder.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::sentence_encoder {

at::Tensor of_length_1(const at::Tensor& x) {
  constexpr double kShortest = 1e-12;  // PyTorch's normalize() has it
  return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(kShortest);
}

void Config::check() const {
  language ? language->check() : row().check(encoder);
  hugging_face::check_range("projection_dim", projection_dim, 0, encoder::kMostWidth);
}

adapters::AdaptedModel adapted_encoder(const Config& config) {
  return encoder::adapted_encoder(config.row(), config.encoder, {}, "FEATURE_EXTRACTION");
}

SentenceEncoder::SentenceEncoder(const Config& config, const adapters::LoraOptions& lora)
    : config_(config), lora_(lora) {
  config_.check();
  if (config_.language) {
    language_ = language::make_adapted(*config_.language, lora);
    registry_ = language_->place().registry;
  } else {
    registry_->set_rule(
        [this](Parameter& parameter) { parameter.trainable = adapters::is_trained(parameter, lora_); });
    encoder_.emplace(config_.row(), config_.encoder, *registry_);
    encoder_->add_lora(lora_);
    registry_->set_rule(nullptr);
    lora_.start(*registry_, adapted_encoder(config_));
  }
  if (config_.projection_dim == 0) return;
  const int64_t width = config_.pooled_width();
  const double deviation =
      language_ ? config_.language->initializer_range : config_.encoder.initializer_range;
  const uint32_t unit = projection_unit();
  projection_ =
      config_.projection_has_bias
          ? transformer::add_linear(*registry_, "projection", width, config_.projection_dim, unit, deviation)
          : transformer::Linear{transformer::add_matrix(*registry_, "projection", width,
                                                        config_.projection_dim, unit, deviation),
                                {}};
}

at::Tensor SentenceEncoder::pooled(const at::Tensor& rows, const transformer::Ragged& texts) const {
  return config_.pooling == Pooling::kMean ? encoder::text_means(rows, texts) : rows.to(at::kFloat);
}

at::Tensor SentenceEncoder::last_layer(const transformer::PackedBatch& texts,
                                       const std::vector<int64_t>& rows, const ForwardPass& pass) const {
  if (language_) return language_->last_rows(texts, rows, pass);
  return encoder_->output(texts, rows, pass);
}

at::Tensor SentenceEncoder::vectors(const transformer::PackedBatch& texts, const ForwardPass& pass) const {
  const transformer::Ragged& rows = texts.sequences;
  std::vector<int64_t> wanted(static_cast<size_t>(rows.rows()));
  std::iota(wanted.begin(), wanted.end(), 0);
  if (config_.pooling != Pooling::kMean) {
    wanted.clear();
    for (int64_t text = 0; text < rows.sequences(); ++text)
      wanted.push_back(config_.pooling == Pooling::kFirst ? rows.start(text) : rows.start(text + 1) - 1);
  }
  at::Tensor x = pooled(last_layer(texts, wanted, pass), rows);
  if (projection_.weight.defined())
    x = pass.run_once(projection_unit(),
                      [&](const Tensors& in) {
                        const at::Tensor y =
                            transformer::linear(in[0].to(pass.compute), projection_).to(at::kFloat);
                        return Tensors{config_.projection_is_tanh ? y.tanh() : y};
                      },
                      {x})[0];
  return config_.normalizes ? of_length_1(x) : x;
}

double SentenceEncoder::flops(const transformer::PackedBatch& texts) const {
  return language_ ? language_->flops(texts) : encoder_->flops(texts.sequences);
}

}  // namespace pipeline::sentence_encoder
