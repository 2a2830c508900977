#include "plugins/tasks/protein/esm2/esm2.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "plugins/tasks/protein/data/structure.hpp"
#include "plugins/tasks/protein/esm2/vocabulary.hpp"
#include "transformer/dropout.hpp"
#include "transformer/embedding.hpp"
#include "transformer/to_device.hpp"

namespace pipeline::protein {
namespace {

using esm2::kVocabulary;
using esm2::Sequences;
using transformer::AttentionLayout;
using transformer::Dropout;
using transformer::Rotation;

constexpr auto kTokens = static_cast<int64_t>(kVocabulary.size());

// Dropout has three places in each layer.
enum class Site : uint64_t { kAttention, kProjection, kMlp };

Dropout dropout_at(const ForwardOptions& options, double p, int64_t layer, Site site) {
  if (!options.training || p == 0) return {};
  return {p, transformer::dropout_key(options.dropout_seed, 3 * static_cast<uint64_t>(layer) + static_cast<uint64_t>(site))};
}

// Below this share of rows with a target the last layer computes only those.
constexpr double kFewRows = 0.75;

bool few(size_t targets, int64_t rows) {
  return targets > 0 && static_cast<double>(targets) < kFewRows * static_cast<double>(rows);
}

at::Tensor from_table(const esm2::TokenTable& table, const at::Tensor& tokens) {
  return transformer::to_device(table, tokens.device()).index_select(0, tokens);
}

}  // namespace

struct Esm2::Pass {
  AttentionLayout layout, layout_at_targets;
  at::Tensor targets;  // (T) int64 rows
  Rotation rotation, rotation_at_targets;
  ForwardOptions options;
};

Esm2::Esm2(const Esm2Config& config) : config_(config) {
  config_.check();
  const int64_t width = config_.hidden_dim;
  const double deviation = config_.initializer_range, epsilon = config_.layer_norm_epsilon;
  words_ = parameters_.add(
      {"esm.embeddings.word_embeddings.weight", {kTokens, width}, 0, false, {Initial::Kind::kNormal, deviation}});
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string name = "esm.encoder.layer." + std::to_string(i);
    const auto unit = static_cast<uint32_t>(i + 1);
    Esm2Layer layer;
    layer.attention_norm = parameters_.norm(name + ".attention.LayerNorm", width, unit, epsilon);
    layer.qkv = parameters_.linear(name + ".attention.self.qkv", width, 3 * width, unit, deviation);
    layer.projection = parameters_.linear(name + ".attention.output.dense", width, width, unit, deviation);
    layer.mlp_norm = parameters_.norm(name + ".LayerNorm", width, unit, epsilon);
    layer.up = parameters_.linear(name + ".intermediate.dense", width, config_.inner(), unit, deviation);
    layer.down = parameters_.linear(name + ".output.dense", config_.inner(), width, unit, deviation);
    layers_.push_back(layer);
  }
  last_norm_ = parameters_.norm("esm.encoder.emb_layer_norm_after", width, 0, epsilon);
  head_dense_ = parameters_.linear("lm_head.dense", width, width, 0, deviation);
  head_norm_ = parameters_.norm("lm_head.layer_norm", width, 0, epsilon);
  head_bias_ = parameters_.add({"lm_head.bias", {kTokens}, 0, false, {}});
  set_extras({});
}

at::Tensor Esm2::layer(int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Esm2Layer& w = layers_[static_cast<size_t>(index)];
  const at::Tensor qkv = transformer::norm_linear(x, w.attention_norm, w.qkv, pass.options.compute);
  const at::Tensor h = transformer::ragged_self_attention(
      transformer::rotate_(qkv, 2 * config_.hidden_dim, pass.rotation), pass.layout,
      dropout_at(pass.options, config_.attention_dropout, index, Site::kAttention));
  return after_attention(index, h, x, pass);
}

at::Tensor Esm2::layer_at_targets(int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Esm2Layer& w = layers_[static_cast<size_t>(index)];
  const int64_t width = config_.hidden_dim;
  const at::Tensor picked = x.index_select(0, pass.targets);
  const at::Tensor kv = transformer::rotate_(
      transformer::norm_linear(x, w.attention_norm, transformer::columns(w.qkv, width, 2 * width), pass.options.compute), width,
      pass.rotation);
  const at::Tensor q = transformer::rotate_(
      transformer::norm_linear(picked, w.attention_norm, transformer::columns(w.qkv, 0, width), pass.options.compute), width,
      pass.rotation_at_targets);
  const at::Tensor h = transformer::ragged_attention(
      q, kv.narrow(1, 0, width), kv.narrow(1, width, width), pass.layout_at_targets,
      dropout_at(pass.options, config_.attention_dropout, index, Site::kAttention));
  return after_attention(index, h, picked, pass);
}

at::Tensor Esm2::after_attention(int64_t index, const at::Tensor& h, const at::Tensor& residual, const Pass& pass) const {
  const Esm2Layer& w = layers_[static_cast<size_t>(index)];
  const at::Tensor middle = transformer::linear_residual(
      h, w.projection, residual, dropout_at(pass.options, config_.hidden_dropout, index, Site::kProjection));
  return transformer::norm_mlp_residual(middle, w.mlp_norm, w.up, w.down,
                                        dropout_at(pass.options, config_.hidden_dropout, index, Site::kMlp),
                                        pass.options.compute, transformer::Gelu::kExact);
}

at::Tensor Esm2::body(const PackedBatch& batch, const ForwardOptions& options) const {
  const Sequences sequences(batch, config_.token_dropout);
  const auto pass = std::make_shared<Pass>();  // the layers' bodies may run again in the backward pass
  pass->options = options;
  pass->layout = {.queries = sequences.rows, .keys = sequences.rows, .heads = config_.num_heads, .causal = false, .positions = {}};
  pass->rotation = transformer::rotation(sequences.positions, frequencies_);
  pass->targets = transformer::to_device(sequences.targets, sequences.tokens.device());
  const bool only_targets = few(sequences.targets.size(), sequences.rows.rows());
  if (only_targets) {
    pass->layout_at_targets = transformer::queries_at(pass->layout, sequences.targets);
    pass->rotation_at_targets = {pass->rotation.cos.index_select(0, pass->targets),
                                 pass->rotation.sin.index_select(0, pass->targets)};
  }

  at::Tensor x = run_unit(0, {}, [&](const Tensors&) {
    const at::Tensor embedded = transformer::look_up(words_, sequences.tokens);
    return Tensors{sequences.scale.defined() ? (embedded * sequences.scale.unsqueeze(1)).to(embedded.scalar_type()) : embedded};
  })[0];
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const bool at_targets = only_targets && i + 1 == config_.num_layers;
    x = run_unit(i + 1, {x}, [this, i, at_targets, pass](const Tensors& in) {
      return Tensors{at_targets ? layer_at_targets(i, in[0], *pass) : layer(i, in[0], *pass)};
    })[0];
  }
  return only_targets ? x : x.index_select(0, pass->targets);
}

at::Tensor Esm2::head_input(const at::Tensor& x, at::ScalarType compute) const {
  return transformer::gelu(transformer::norm_linear(x, last_norm_, head_dense_, compute).to(x.scalar_type()),
                           transformer::Gelu::kExact);
}

transformer::Loss Esm2::loss(const PackedBatch& batch, const ForwardOptions& options) {
  const at::Tensor targets = from_table(esm2::token_table(), batch.targets);
  const Tensors out = run_unit(0, {body(batch, options)}, [&](const Tensors& in) {
    const transformer::Loss loss = transformer::cross_entropy_head(
        head_input(in[0], options.compute), targets, head_norm_, words_,
        {.scale = options.scale, .compute = options.compute, .factor_is_one = true}, head_bias_);
    return Tensors{loss.sum, loss.scaled};
  });
  return {out[0], out[1]};
}

at::Tensor Esm2::logits(const PackedBatch& batch, at::ScalarType compute) {
  const at::NoGradGuard no_grad;
  ForwardOptions options;
  options.compute = compute;
  return run_unit(0, {body(batch, options)}, [&](const Tensors& in) {
    return Tensors{transformer::head_logits(head_input(in[0], compute), head_norm_, words_, compute, head_bias_)};
  })[0];
}

Outputs Esm2::outputs(const PackedBatch& batch, at::ScalarType compute) {
  const at::Tensor all = logits(batch, compute);
  const at::Tensor amino_acids = at::arange(kAminoAcidCount, at::TensorOptions(all.device()).dtype(at::kLong));
  return {.log_probabilities = at::log_softmax(all.index_select(1, from_table(esm2::token_table(), amino_acids)), 1), .distance_loss = {}};
}

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass.
double Esm2::flops(const PackedBatch& batch) const {
  const Sequences sequences(batch, false);
  const auto width = static_cast<double>(config_.hidden_dim), inner = static_cast<double>(config_.inner());
  const auto rows = static_cast<double>(sequences.rows.rows()), targets = static_cast<double>(sequences.targets.size());
  // keys and values of all rows; queries, projection and MLP of `computed` rows; scores and sums of `pairs`
  const auto layer = [&](double computed, double pairs) {
    return 2 * rows * 2 * width * width + 2 * computed * (2 * width * width + 2 * width * inner) + 4 * pairs * width;
  };
  double all_pairs = 0, target_pairs = 0;
  size_t next = 0;
  for (int64_t s = 0; s < sequences.rows.sequences(); ++s) {
    const auto length = static_cast<double>(sequences.rows.length(s));
    all_pairs += length * length;
    for (; next < sequences.targets.size() && sequences.targets[next] < sequences.rows.start(s + 1); ++next)
      target_pairs += length;
  }
  const double last = few(sequences.targets.size(), sequences.rows.rows()) ? layer(targets, target_pairs) : layer(rows, all_pairs);
  const double head = 2 * targets * (width * width + width * static_cast<double>(kTokens));
  return 3 * (static_cast<double>(config_.num_layers - 1) * layer(rows, all_pairs) + last + head);
}

void Esm2::import_folder(const std::filesystem::path& folder) {
  folder_ = std::make_unique<esm2::Folder>(folder.string(), config_, parameters_);
  set_extras(folder_->extras());
}

void Esm2::imported(size_t index, at::Tensor& out) {
  TORCH_CHECK(folder_, "ESM-2: no folder was imported");
  folder_->read(index, out);
}

void Esm2::export_folder(const std::filesystem::path& folder) const {
  esm2::write_folder(folder.string(), config_, parameters_, extras_);
}

void Esm2::set_extra_state(std::string_view state) { set_extras(esm2::Extras::unpack(state, config_)); }

void Esm2::set_extras(esm2::Extras extras) {
  extras_ = std::move(extras);
  frequencies_ = extras_.frequencies.defined() ? extras_.frequencies : transformer::rotary_frequencies(config_.head_width());
}

}  // namespace pipeline::protein
