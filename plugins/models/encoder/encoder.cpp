#include "plugins/models/encoder/encoder.hpp"

#include <ATen/core/Tensor.h>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "transformer/embedding.hpp"

namespace pipeline::encoder {

Encoder::Encoder(const Architecture& row, const Config& config, ParameterRegistry& parameters,
                 std::string prefix, uint32_t first_unit)
    : row_(row),
      config_(config),
      parameters_(parameters),
      prefix_(std::move(prefix)),
      first_unit_(first_unit),
      stream_(row.stream(config)) {
  row_.check(config_);
  const auto table = [&](const char* name, int64_t rows) {
    return parameters_.add({.name = prefix_ + name,
                            .shape = {rows, config_.hidden_size},
                            .decay = row_.decays_words,
                            .unit = first_unit_},
                           normal(config_.initializer_range));
  };
  words_ = table(row_.names.words, config_.vocab_size);
  if (row_.names.positions != nullptr)
    positions_ = table(row_.names.positions, config_.max_position_embeddings);
  if (row_.names.types != nullptr) types_ = table(row_.names.types, config_.type_vocab_size);
  if (row_.names.first_norm != nullptr)
    first_norm_ = add_norm(prefix_ + row_.names.first_norm, first_unit_, config_.layer_norm_eps,
                           row_.has_bias_in_norms);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) add_layer(i);
  if (row_.names.last_norm != nullptr)
    last_norm_ = add_norm(prefix_ + row_.names.last_norm, first_unit_, stream_epsilon(), row_.has_biases);
  if (!row_.has_local_layers) return;
  frequencies_ = transformer::rotary_frequencies(config_.head_width(), config_.global_rope_theta);
  local_frequencies_ = transformer::rotary_frequencies(config_.head_width(), config_.local_rope_theta);
}

void Encoder::add_lora(const adapters::LoraConfig& lora) {
  adapters::add_lora(parameters_, lora, row_.lora_targets(config_, prefix_, first_unit_), layers_);
  lora_dropout_ = lora.dropout;
}

transformer::Norm Encoder::add_norm(const std::string& name, uint32_t unit, double epsilon, bool has_bias) {
  return transformer::add_norm(parameters_, name, config_.hidden_size, unit, epsilon, has_bias);
}

void Encoder::add_layer(int64_t number) {
  const Names& names = row_.names;
  const std::string of = concat(prefix_, names.layers, number, ".");
  const uint32_t unit = first_unit_ + static_cast<uint32_t>(number + 1);
  const int64_t width = config_.hidden_size, inner = row_.inner(config_);
  const auto norm = [&](const char* part) {
    return add_norm(of + part, unit, stream_epsilon(), row_.has_bias_in_norms);
  };
  // Of `count` matrices of the folder's, each (in, out).
  const auto linear = [&](const char* part, int64_t in, int64_t out, size_t count = 1) {
    const double deviation = config_.initializer_range;
    const std::vector<int64_t> parts(count, out);
    out *= static_cast<int64_t>(count);
    if (row_.has_biases)
      return transformer::add_linear(parameters_, of + part, in, out, unit, deviation, parts);
    return transformer::Linear{
        transformer::add_matrix(parameters_, of + part, in, out, unit, deviation, parts), {}};
  };
  transformer::Layer layer;
  if (number > 0 || row_.has_first_attention_norm)
    (row_.is_post_norm ? layer.attention_sum_norm : layer.attention_norm) = norm(names.layer.attention_norm);
  layer.qkv = linear(names.layer.qkv, width, width, 3);
  if (names.query_norm != nullptr) {
    layer.query_norm = add_norm(of + names.query_norm, unit, config_.layer_norm_eps, false);
    layer.key_norm = add_norm(of + names.key_norm, unit, config_.layer_norm_eps, false);
  }
  layer.projection = linear(names.layer.projection, width, width);
  (row_.is_post_norm ? layer.mlp_sum_norm : layer.mlp_norm) = norm(names.layer.mlp_norm);
  layer.gate = row_.gate;
  layer.is_local = row_.is_local(config_, number);
  layer.up = linear(names.layer.up, width, inner, row_.gate ? 2 : 1);
  layer.down = linear(names.layer.down, inner, width);
  layers_.push_back(std::move(layer));
}

at::Tensor Encoder::with_tables(const at::Tensor& tokens, const at::Tensor& positions,
                                const at::Tensor& types, const ForwardPass& pass) const {
  constexpr uint64_t kSite = uint64_t{1} << 33;  // beside those of layers
  const at::Tensor rows = row_.first_position == 0 ? positions : positions + row_.first_position;
  at::Tensor x =
      transformer::embed(tokens, positions_.defined() ? rows : at::Tensor(), words_, positions_, {});
  if (types_.defined())
    x = x + transformer::look_up(types_, types.defined() ? types : at::zeros_like(tokens));
  if (!first_norm_.weight.defined()) return x;
  x = transformer::norm_rows(x, first_norm_);
  if (!pass.training || config_.hidden_dropout == 0) return x;
  return transformer::dropped(x,
                              {config_.hidden_dropout, transformer::dropout_key(pass.dropout_seed, kSite)});
}

at::Tensor Encoder::embedded(const at::Tensor& tokens, const at::Tensor& positions, const ForwardPass& pass,
                             const at::Tensor& scale, const at::Tensor& types) const {
  return pass.run_once(first_unit_,
                       [&](const Tensors&) {
                         if (first_norm_.weight.defined() || positions_.defined())
                           return Tensors{with_tables(tokens, positions, types, pass)};
                         const at::Tensor x = transformer::look_up(words_, tokens);
                         if (scale.defined()) return Tensors{(x * scale.unsqueeze(1)).to(x.scalar_type())};
                         return Tensors{stream_ == 1 ? x : x * stream_};
                       },
                       {})[0];
}

transformer::LayerPass Encoder::layer_pass(const transformer::Ragged& rows,
                                           const at::Tensor& positions) const {
  transformer::LayerPass layers;
  layers.layout = {
      .queries = rows, .keys = rows, .heads = config_.num_attention_heads, .causal = row_.is_causal};
  layers.dropout = {.attention = config_.attention_dropout, .residual = config_.hidden_dropout};
  layers.dropout.lora = lora_dropout_;
  layers.first_unit = first_unit_ + 1;
  layers.gelu = transformer::gelu_named(config_.hidden_act);
  if (!row_.has_local_layers) return layers;
  layers.rotation = transformer::rotation(positions, frequencies_);
  layers.local = {layers.layout, transformer::rotation(positions, local_frequencies_)};
  layers.local->layout.window = config_.local_attention / 2 + 1;
  return layers;
}

at::Tensor Encoder::output(const transformer::PackedBatch& texts, const std::vector<int64_t>& rows,
                           const ForwardPass& pass, const at::Tensor& types) const {
  at::Tensor x =
      transformer::run_layers(layers_, embedded(texts.tokens, texts.positions, pass, {}, types),
                              layer_pass(texts.sequences, texts.positions), pass, parameters_, rows);
  if (!last_norm_.weight.defined()) return x;
  return pass.run_once(first_unit_,
                       [&](const Tensors& in) { return Tensors{transformer::norm_rows(in[0], last_norm_)}; },
                       {x})[0];
}

at::Tensor Encoder::last_rows(const transformer::PackedBatch& texts, const ForwardPass& pass) const {
  std::vector<int64_t> wanted;
  for (int64_t text = 0; text < texts.sequences.sequences(); ++text)
    wanted.push_back(texts.sequences.start(text + 1) - 1);
  return transformer::run_layers(layers_, embedded(texts.tokens, texts.positions, pass),
                                 layer_pass(texts.sequences), pass, parameters_, wanted);
}

// Counts the products that are computed: 2 m n k each.
double Encoder::layer_flops(double rows, double computed, double pairs) const {
  const auto width = static_cast<double>(config_.hidden_size),
             inner = static_cast<double>(row_.inner(config_));
  const double matrices = row_.gate ? 3 : 2;  // of the MLP
  return 2 * rows * 2 * width * width + 2 * computed * (2 * width * width + matrices * width * inner) +
         4 * pairs * width;
}

double Encoder::flops(const transformer::Ragged& texts) const {
  double sum = 0;
  for (const transformer::Layer& layer : layers_)
    for (int64_t text = 0; text < texts.sequences(); ++text) {
      const auto rows = static_cast<double>(texts.length(text));
      const double seen =
          layer.is_local ? std::min(rows, static_cast<double>(config_.local_attention + 1)) : rows;
      sum += layer_flops(rows, rows, row_.is_causal ? rows * rows / 2 : rows * seen);
    }
  return 3 * sum;
}

// A product with a matrix that says which rows are a text's: its bits do not depend on the number of threads,
// as those of our other products do not.
at::Tensor text_means(const at::Tensor& rows, const transformer::Ragged& texts) {
  at::Tensor shares = at::zeros({texts.sequences(), texts.rows()}, at::kFloat);
  for (int64_t text = 0; text < texts.sequences(); ++text)
    shares[text]
        .narrow(0, texts.start(text), texts.length(text))
        .fill_(1.0 / static_cast<double>(std::max<int64_t>(texts.length(text), 1)));
  return transformer::linear(transformer::to_device(shares, rows.device()), {rows.to(at::kFloat), {}});
}

}  // namespace pipeline::encoder
