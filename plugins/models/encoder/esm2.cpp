#include "plugins/models/encoder/esm2.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>

#include <algorithm>
#include <numeric>

#include "hugging_face/config_file.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/encoder/esm2_folder.hpp"
#include "plugins/models/encoder/esm2_sequences.hpp"
#include "plugins/models/protein/label_folder.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/dropout.hpp"
#include "transformer/embedding.hpp"
#include "transformer/layer_norm.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {
namespace {

using esm2::kVocabulary;
using esm2::Sequences;

// Beside those of layers.
constexpr uint64_t kLabelDropout = uint64_t{1} << 32;
constexpr auto kTokens = static_cast<int64_t>(kVocabulary.size());

at::Tensor from_table(const esm2::TokenTable& table, const at::Tensor& tokens) {
  return transformer::to_device(table, tokens.device()).index_select(0, tokens);
}

}  // namespace

void Esm2Config::check() const {
  using namespace hugging_face;
  check_range("num_layers", num_layers, 1, kMostLayers);
  check_range("hidden_dim", hidden_dim, 1, kMostWidth);
  check_range("num_heads", num_heads, 1, kMostWidth);
  check_range("intermediate", intermediate, 0, kMostWidth);
  if (hidden_dim % num_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_heads = ", num_heads, ": must divide hidden_dim (", hidden_dim, ")");
  if (head_width() % 2 != 0)
    fail_with(PL_ERROR_CONFIG, "num_heads = ", num_heads, ": gives heads of ", head_width(),
              " channels: rotary positions need an even number");
  check_share("hidden_dropout", hidden_dropout);
  check_share("attention_dropout", attention_dropout);
  check_positive("layer_norm_epsilon", layer_norm_epsilon);
  check_positive("initializer_range", initializer_range);
}

Esm2::Esm2(const Esm2Config& config, const adapters::LoraOptions& lora, const ParameterRegistry::Rule& rule,
           double stream)
    : lora_(lora), config_(config), stream_(stream) {
  config_.check();
  parameters_.set_rule([this, rule](Parameter& parameter) {
    // What a model is pretrained with and what it is then to learn need not be the same.
    parameter.is_new = parameter.is_new || protein::is_of_label_head(parameter.name);
    parameter.droppable = parameter.is_new || parameter.name.starts_with("lm_head.");
    parameter.trainable = adapters::is_trained(parameter, lora_);
    if (rule) rule(parameter);
  });
  set_extras({});
}

Esm2::Esm2(const Esm2Config& config, const adapters::LoraOptions& lora, const ParameterRegistry::Rule& rule)
    : Esm2(config, lora, rule, 1) {
  const int64_t width = config_.hidden_dim;
  const double deviation = config_.initializer_range, epsilon = config_.layer_norm_epsilon;
  words_ = parameters_.add(
      {.name = "esm.embeddings.word_embeddings.weight", .shape = {kTokens, width}, .decay = false},
      normal(deviation));
  const transformer::LayerShape shape{.width = width,
                                      .inner = config_.inner(),
                                      .epsilon = epsilon,
                                      .deviation = deviation,
                                      .into_residual = deviation};
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    layers_.push_back(transformer::add_layer(
        parameters_, "esm.encoder.layer." + std::to_string(i), static_cast<uint32_t>(i + 1), shape,
        {"attention.LayerNorm", "attention.self.qkv", "attention.output.dense", "LayerNorm",
         "intermediate.dense", "output.dense"}));
  }
  last_norm_ = transformer::add_norm(parameters_, "esm.encoder.emb_layer_norm_after", width, 0, epsilon);
  if (config_.label) {
    label_head_.emplace(parameters_, *config_.label, width, deviation);
  } else {
    head_dense_ = transformer::add_linear(parameters_, "lm_head.dense", width, width, 0, deviation);
    head_norm_ = transformer::add_norm(parameters_, "lm_head.layer_norm", width, 0, epsilon);
    head_weight_ = words_;
    head_bias_ = parameters_.add({.name = "lm_head.bias", .shape = {kTokens}, .decay = false}, constant(0));
  }
  adapters::add_lora(parameters_, lora_, esm2::adapted_model(config_).targets, layers_);
  start_from_adapter();
}

void Esm2::start_from_adapter() {
  if (!lora_.init_from.empty())
    adapters::start_from_adapter(lora_.init_from.string(), parameters_, esm2::adapted_model(config_));
}

transformer::LayerPass Esm2::shared(const Sequences& sequences) const {
  return {.layout = {.queries = sequences.rows,
                     .keys = sequences.rows,
                     .heads = config_.num_heads,
                     .causal = false},
          .rotation = transformer::rotation(sequences.positions, frequencies_),
          .dropout = {.attention = config_.attention_dropout,
                      .residual = config_.hidden_dropout,
                      .additions = lora_.dropout},
          .gelu = transformer::Gelu::kExact};
}

at::Tensor Esm2::embedded(const Sequences& sequences, const ForwardPass& pass) const {
  return pass.run_once(0,
                       [&](const Tensors&) {
                         const at::Tensor x = transformer::look_up(words_, sequences.tokens);
                         if (sequences.scale.defined())
                           return Tensors{(x * sequences.scale.unsqueeze(1)).to(x.scalar_type())};
                         return Tensors{stream_ == 1 ? x : x * stream_};
                       },
                       {})[0];
}

at::Tensor Esm2::body(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const Sequences sequences(batch, config_.token_dropout);
  std::vector<int64_t> rows = sequences.targets;
  if (config_.label &&
      config_.label->of == protein::LabelForm::Of::kChains)  // at <cls>, before the first residue
    for (int64_t& row : rows) --row;
  return transformer::run_layers(layers_, embedded(sequences, pass), shared(sequences), pass, parameters_,
                                 rows);
}

protein::Embeddings Esm2::embeddings(const protein::PackedProteins& batch, const ForwardPass& pass,
                                     int64_t layer) const {
  const at::NoGradGuard no_grad;
  const Sequences sequences(batch, config_.token_dropout);
  std::vector<int64_t> all(static_cast<size_t>(sequences.rows.rows())), chains, residues;
  std::iota(all.begin(), all.end(), 0);
  for (int64_t s = 0; s < sequences.rows.sequences(); ++s) {
    chains.push_back(sequences.rows.start(s));
    for (int64_t row = sequences.rows.start(s) + 1; row + 1 < sequences.rows.start(s + 1); ++row)
      residues.push_back(row);
  }
  transformer::LayerPass layers = shared(sequences);
  const auto middle = layers_.begin() + layer;
  at::Tensor x = transformer::run_layers({layers_.begin(), middle}, embedded(sequences, pass), layers, pass,
                                         parameters_, all);
  at::Tensor rest = x;
  layers.first_unit += static_cast<uint32_t>(layer);
  // Every batch passes through all units (pipeline/torch/units.hpp).
  if (pass.units != nullptr && middle != layers_.end())
    rest = transformer::run_layers({middle, layers_.end()}, x, layers, pass, parameters_, all);
  const at::Tensor last = pass.run_once(
      0,
      [&](const Tensors& in) {
        return Tensors{
            transformer::layer_norm(in[0], last_norm_.weight, bias_of(last_norm_), last_norm_.eps).y};
      },
      {rest})[0];
  if (middle == layers_.end())
    x = last;
  else if (stream_ != 1)
    x = x / stream_;
  const auto rows_of_x = [&](const std::vector<int64_t>& rows) {
    return x.index_select(0, transformer::to_device(rows, x.device())).to(at::kFloat);
  };
  return {.residues = rows_of_x(residues), .chains = rows_of_x(chains)};
}

at::Tensor Esm2::head_input(const at::Tensor& x, at::ScalarType compute) const {
  return transformer::gelu(transformer::norm_linear(x, last_norm_, head_dense_, compute).to(x.scalar_type()),
                           transformer::Gelu::kExact);
}

at::Tensor Esm2::with_label_outputs(const protein::PackedProteins& batch, const ForwardPass& pass,
                                    const std::function<at::Tensor(const at::Tensor&)>& then) const {
  const transformer::Dropout dropout{pass.training ? config_.hidden_dropout : 0,
                                     transformer::dropout_key(pass.dropout_seed, kLabelDropout)};
  return pass.run_once(0,
                       [&](const Tensors& in) {
                         const at::Tensor normed =
                             at::layer_norm(in[0].to(at::kFloat), {config_.hidden_dim}, last_norm_.weight,
                                            last_norm_.bias, last_norm_.eps);
                         return Tensors{then(label_head_->outputs(normed, batch, dropout, pass.compute))};
                       },
                       {body(batch, pass)})[0];
}

at::Tensor Esm2::labels(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(label_head_, "the model predicts no labels");
  return with_label_outputs(batch, pass,
                            [&](const at::Tensor& outputs) { return label_head_->told(outputs); });
}

LossSum Esm2::loss(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  if (label_head_)
    return LossSum(with_label_outputs(
        batch, pass, [&](const at::Tensor& outputs) { return label_head_->loss(outputs, batch); }));
  const at::Tensor targets = from_table(esm2::token_table(), batch.targets);
  const Tensors out =
      pass.run_once(0,
                    [&](const Tensors& in) {
                      const LossSum loss = transformer::cross_entropy_head(
                          head_input(in[0], pass.compute), targets, head_norm_, head_weight_,
                          {.scale = pass.scale, .compute = pass.compute, .factor_is_one = true}, head_bias_);
                      return Tensors{loss.sum, loss.scaled};
                    },
                    {body(batch, pass)});
  return {out[0], out[1]};
}

at::Tensor Esm2::logits(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(!label_head_, "the model predicts labels: it has no head for masked residues");
  return pass.run_once(0,
                       [&](const Tensors& in) {
                         return Tensors{transformer::head_logits(head_input(in[0], pass.compute), head_norm_,
                                                                 head_weight_, pass.compute, head_bias_)};
                       },
                       {body(batch, pass)})[0];
}

protein::Outputs Esm2::outputs(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const at::Tensor all = logits(batch, pass);
  const at::Tensor amino_acids =
      at::arange(residues::kAminoAcidCount, at::TensorOptions(all.device()).dtype(at::kLong));
  const at::Tensor twenty = all.index_select(1, from_table(esm2::token_table(), amino_acids));
  return {.log_probabilities = at::log_softmax(twenty, 1),
          .log_share = at::logsumexp(twenty, 1) - at::logsumexp(all, 1),
          .distance_loss = {}};
}

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass.
double Esm2::flops(const protein::PackedProteins& batch) const {
  const Sequences sequences(batch, false);
  const auto width = static_cast<double>(config_.hidden_dim), inner = static_cast<double>(config_.inner());
  const auto rows = static_cast<double>(sequences.rows.rows()),
             targets = static_cast<double>(sequences.targets.size());
  const double mlp = layers_.front().is_gated ? 3 : 2;  // matrices
  // keys and values of all rows; queries, projection and MLP of `computed` rows; scores and sums of `pairs`
  const auto layer = [&](double computed, double pairs) {
    return 2 * rows * 2 * width * width + 2 * computed * (2 * width * width + mlp * width * inner) +
           4 * pairs * width;
  };
  double all_pairs = 0, target_pairs = 0;
  size_t next = 0;
  for (int64_t s = 0; s < sequences.rows.sequences(); ++s) {
    const auto length = static_cast<double>(sequences.rows.length(s));
    all_pairs += length * length;
    for (; next < sequences.targets.size() && sequences.targets[next] < sequences.rows.start(s + 1); ++next)
      target_pairs += length;
  }
  const double last = transformer::few_rows(sequences.targets.size(), sequences.rows.rows())
                          ? layer(targets, target_pairs)
                          : layer(rows, all_pairs);
  const double head = label_head_
                          ? label_head_->products(targets, all_pairs, width)
                          : 2 * targets * (width * width + width * static_cast<double>(head_bias_.numel()));
  return 3 * (static_cast<double>(config_.num_layers - 1) * layer(rows, all_pairs) + last + head);
}

void Esm2::import_folder(const std::filesystem::path& folder) {
  set_extras(esm2::import_folder(folder.string(), config_, parameters_));
  start_from_adapter();  // after what is the whole model's
}

void Esm2::export_folder(const std::filesystem::path& folder) const {
  if (lora_.exports_adapter()) {
    if (config_.label) protein::write_adapter_label(folder.string(), *config_.label, "Esm");
    return adapters::export_adapter(folder.string(), parameters_, lora_, esm2::adapted_model(config_),
                                    lora_.base_model);
  }
  esm2::export_folder(
      folder.string(), config_, parameters_, extras_,
      [&](const ParameterRegistry::Declared& parameter) { return adapters::merged(parameter, layers_); });
}

void Esm2::set_extra_state(std::string_view state) { set_extras(esm2::Extras::unpack(state, config_)); }

void Esm2::set_extras(esm2::Extras extras) {
  extras_ = std::move(extras);
  frequencies_ = extras_.frequencies.defined() ? extras_.frequencies
                                               : transformer::rotary_frequencies(config_.head_width());
}

}  // namespace pipeline::encoder
