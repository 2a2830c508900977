#include "plugins/tasks/protein/model/encoder_decoder.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "plugins/tasks/protein/data/structure.hpp"
#include "plugins/tasks/protein/model/geometry.hpp"
#include "transformer/dropout.hpp"
#include "transformer/embedding.hpp"
#include "transformer/to_device.hpp"

namespace pipeline::protein {
namespace {

using transformer::AttentionLayout;
using transformer::Dropout;
using transformer::Linear;
using transformer::Norm;
using transformer::Ragged;

constexpr int64_t kDistogramWidth = 64;

enum class Site : uint64_t { kAttention, kProjection, kMlp, kCount };

Dropout dropout_at(const ForwardOptions& options, double p, int64_t layer, Site site) {
  if (!options.training || p == 0) return {};
  return {p, transformer::dropout_key(options.dropout_seed,
                                      static_cast<uint64_t>(layer) * static_cast<uint64_t>(Site::kCount) + static_cast<uint64_t>(site))};
}

// Some rows of a batch, ascending.
struct Rows {
  std::vector<int64_t> numbers;
  Ragged samples;
  at::Tensor index;  // numbers, on the batch's device
};

Rows rows_of(const PackedBatch& batch, const std::vector<int64_t>& numbers) {
  Rows rows{.numbers = numbers, .samples = {}, .index = transformer::to_device(numbers, batch.tokens.device())};
  auto next = numbers.begin();
  for (int64_t s = 0; s < batch.samples.sequences(); ++s) {
    const auto end = std::lower_bound(next, numbers.end(), batch.samples.start(s + 1));
    rows.samples.append(end - next);
    next = end;
  }
  return rows;
}

at::Tensor linear(const at::Tensor& x, const Linear& l) { return at::addmm(l.bias, x.to(l.weight.scalar_type()), l.weight); }

Tensors with_first(at::Tensor first, const Tensors& rest) {
  Tensors all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace

EncoderDecoder::EncoderDecoder(const EncoderDecoderConfig& config) : config_(config) {
  const int64_t width = config_.hidden_dim, layers = config_.num_encoder_layers + config_.num_decoder_layers;
  TORCH_CHECK(width % config_.num_heads == 0, "hidden_dim ", width, " must be a multiple of num_heads ", config_.num_heads);
  const double range = config_.initializer_range;
  const Initial normal{Initial::Kind::kNormal, range};
  const double of_local = 1 / std::sqrt(static_cast<double>(kLocalFeatures)) / 4;
  token_embedding_ = parameters_.add({"encoder.tokens", {kTokenCount, width}, 0, false, normal});
  encoder_local_ = parameters_.linear("encoder.local", kLocalFeatures, width, 0, of_local);
  encoder_pairs_ = make_pairs("encoder.pairs", config_.num_encoder_layers, 0);
  uint32_t unit = 1;
  for (int64_t i = 0; i < config_.num_encoder_layers; ++i) encoder_.push_back(make_layer("encoder.layers." + std::to_string(i), unit++));
  encoder_norm_ = parameters_.norm("decoder.input_norm", width, unit, config_.layer_norm_epsilon);
  bridge_ = parameters_.linear("decoder.input", width, width, unit, range);
  mask_embedding_ = parameters_.add({"decoder.mask", {width}, unit, false, normal});
  decoder_local_ = parameters_.linear("decoder.local", kLocalFeatures, width, unit, of_local);
  decoder_pairs_ = make_pairs("decoder.pairs", config_.num_decoder_layers, unit);
  ++unit;
  for (int64_t i = 0; i < config_.num_decoder_layers; ++i) decoder_.push_back(make_layer("decoder.layers." + std::to_string(i), unit++));
  final_norm_ = parameters_.norm("head.norm", width, 0, config_.layer_norm_epsilon);
  head_ = parameters_.add({"head.weight", {kAminoAcidCount, width}, 0, true, normal});
  TORCH_CHECK(static_cast<int64_t>(unit) == layers + 2, "units");
  if (config_.distogram > 0) {
    DistogramHead head;
    head.target_norm = parameters_.norm("distogram.target_norm", width, 0, config_.layer_norm_epsilon);
    head.other_norm = parameters_.norm("distogram.other_norm", width, 0, config_.layer_norm_epsilon);
    const Initial projection{Initial::Kind::kNormal, 1 / std::sqrt(static_cast<double>(width))};
    head.target = parameters_.add({"distogram.target", {width, kDistogramWidth}, 0, true, projection});
    head.other = parameters_.add({"distogram.other", {width, kDistogramWidth}, 0, true, projection});
    head.out = parameters_.linear("distogram.out", kDistogramWidth, kDistanceBins, 0, range);
    distogram_ = head;
  }
}

EncoderDecoder::Layer EncoderDecoder::make_layer(const std::string& name, uint32_t unit) {
  const int64_t width = config_.hidden_dim;
  const double range = config_.initializer_range,
               into_residual = range / std::sqrt(2.0 * static_cast<double>(config_.num_encoder_layers + config_.num_decoder_layers));
  Layer layer;
  layer.attention_norm = parameters_.norm(name + ".attention_norm", width, unit, config_.layer_norm_epsilon);
  layer.qkv = parameters_.linear(name + ".qkv", width, 3 * width, unit, range);
  layer.projection = parameters_.linear(name + ".projection", width, width, unit, into_residual);
  layer.mlp_norm = parameters_.norm(name + ".mlp_norm", width, unit, config_.layer_norm_epsilon);
  layer.up = parameters_.linear(name + ".up", width, config_.inner(), unit, range);
  layer.down = parameters_.linear(name + ".down", config_.inner(), width, unit, into_residual);
  return layer;
}

// Hidden values of about one, and biases that start at zero: attention begins as that of a plain transformer.
PairNetwork EncoderDecoder::make_pairs(const std::string& name, int64_t layers, uint32_t unit) {
  const int64_t width = config_.pair_dim;
  const Initial normal{Initial::Kind::kNormal, 0.3};
  PairNetwork network;
  network.weight = parameters_.add({name + ".weight", {kPairFeatures, width}, unit, true, normal});
  network.offsets = parameters_.add({name + ".offsets", {kOffsets, width}, unit, false, normal});
  network.out = parameters_.add({name + ".out", {layers, width, config_.num_heads}, unit, true, {}});
  return network;
}

at::Tensor EncoderDecoder::run_layer(const Layer& layer, int64_t number, const at::Tensor& x, const at::Tensor& bias,
                                     const AttentionLayout& layout, const at::Tensor& rows, const ForwardOptions& options) const {
  const Dropout of_weights = dropout_at(options, config_.attention_dropout, number, Site::kAttention);
  at::Tensor h, residual = x;
  if (!rows.defined()) {
    h = transformer::ragged_self_attention(transformer::norm_linear(x, layer.attention_norm, layer.qkv, options.compute), layout, of_weights, bias);
  } else {  // queries at `rows` alone
    const int64_t width = config_.hidden_dim;
    const at::Tensor kv = transformer::norm_linear(x, layer.attention_norm, transformer::columns(layer.qkv, width, 2 * width), options.compute);
    residual = x.index_select(0, rows);
    const at::Tensor q = transformer::norm_linear(residual, layer.attention_norm, transformer::columns(layer.qkv, 0, width), options.compute);
    h = transformer::ragged_attention(q, kv.narrow(1, 0, width), kv.narrow(1, width, width), layout, of_weights, bias);
  }
  const at::Tensor middle =
      transformer::linear_residual(h, layer.projection, residual, dropout_at(options, config_.dropout, number, Site::kProjection));
  return transformer::norm_mlp_residual(middle, layer.mlp_norm, layer.up, layer.down, dropout_at(options, config_.dropout, number, Site::kMlp),
                                        options.compute);
}

EncoderDecoder::States EncoderDecoder::body(const PackedBatch& batch, const ForwardOptions& options) const {
  const Rows visible = rows_of(batch, batch.visible_rows), targets = rows_of(batch, batch.target_rows);
  const auto of_visible = [&](const at::Tensor& x) { return x.index_select(0, visible.index); };
  AttentionLayout among_visible{.queries = visible.samples, .keys = visible.samples, .heads = config_.num_heads, .causal = false, .positions = {}};
  AttentionLayout among_all = among_visible, to_targets = among_visible;
  among_all.queries = among_all.keys = to_targets.keys = batch.samples;
  to_targets.queries = targets.samples;

  Tensors x = run_unit(0, {}, [&](const Tensors&) {
    const at::Tensor start = transformer::look_up(token_embedding_, of_visible(batch.tokens)) +
                             linear(of_visible(batch.local), encoder_local_);
    return with_first(start, pair_bias({.frames = of_visible(batch.frames),
                                        .flags = of_visible(batch.flags),
                                        .positions = of_visible(batch.positions),
                                        .chains = of_visible(batch.chains),
                                        .keys = visible.samples,
                                        .queries = visible.samples,
                                        .query_rows = {}},
                                       encoder_pairs_));
  });
  int64_t number = 0;
  const auto run = [&](const Layer& layer, int64_t unit, const at::Tensor& input, const at::Tensor& bias, const AttentionLayout& layout,
                       const at::Tensor& rows) {
    return run_unit(unit, {input, bias}, [this, &layer, number = number++, layout, rows, options](const Tensors& in) {
      return Tensors{run_layer(layer, number, in[0], in[1], layout, rows, options)};
    })[0];
  };
  at::Tensor h = x[0];
  int64_t unit = 1;
  for (size_t i = 0; i < encoder_.size(); ++i) h = run(encoder_[i], unit++, h, x[i + 1], among_visible, {});

  const Tensors y = run_unit(unit++, {h}, [&](const Tensors& in) {
    const at::Tensor seen = transformer::norm_linear(in[0], encoder_norm_, bridge_, options.compute).to(in[0].scalar_type());
    // Every row is the mask's vector first; visible ones are then put in their places.
    const at::Tensor start = mask_embedding_.expand({batch.tokens.size(0), config_.hidden_dim}).index_copy(0, visible.index, seen) +
                             linear(batch.local, decoder_local_);
    PairInputs pairs{.frames = batch.frames,
                     .flags = batch.flags,
                     .positions = batch.positions,
                     .chains = batch.chains,
                     .keys = batch.samples,
                     .queries = batch.samples,
                     .query_rows = {}};
    const int64_t whole = config_.num_decoder_layers - 1;
    Tensors biases;
    PairNetwork network = decoder_pairs_;
    network.out = decoder_pairs_.out.narrow(0, 0, whole);
    if (whole > 0) biases = pair_bias(pairs, network);
    network.out = decoder_pairs_.out.narrow(0, whole, 1);
    pairs.queries = targets.samples;
    pairs.query_rows = targets.numbers;
    biases.push_back(pair_bias(pairs, network)[0]);
    return with_first(start, biases);
  });
  h = y[0];
  for (size_t i = 0; i + 1 < decoder_.size(); ++i) h = run(decoder_[i], unit++, h, y[i + 1], among_all, {});
  return {run(decoder_.back(), unit, h, y.back(), to_targets, targets.index), h};
}

transformer::Loss EncoderDecoder::loss(const PackedBatch& batch, const ForwardOptions& options) {
  const States states = body(batch, options);
  const Tensors inputs = distogram_ ? Tensors{states.targets, states.all} : Tensors{states.targets};
  const Tensors out = run_unit(0, inputs, [&](const Tensors& in) {
    const transformer::Loss loss = transformer::cross_entropy_head(
        in[0], batch.targets, final_norm_, head_,
        {.scale = options.scale, .compute = options.compute, .factor_is_one = true});
    if (!distogram_) return Tensors{loss.sum, loss.scaled};
    const at::Tensor distances = config_.distogram * distance_loss(batch, in[0], in[1]);
    return Tensors{loss.sum + distances.detach(), loss.scaled + distances * options.scale};
  });
  return {out[0], out[1]};
}

at::Tensor EncoderDecoder::distance_loss(const PackedBatch& batch, const at::Tensor& targets, const at::Tensor& all) const {
  return distogram_loss({.targets = targets,
                         .others = all,
                         .places = batch.places,
                         .placed = batch.placed,
                         .samples = batch.samples,
                         .target_samples = rows_of(batch, batch.target_rows).samples,
                         .target_rows = batch.target_rows,
                         .hidden = batch.tokens.eq(kMaskToken)},
                        *distogram_);
}

Outputs EncoderDecoder::outputs(const PackedBatch& batch, at::ScalarType compute) {
  const at::NoGradGuard no_grad;
  ForwardOptions options;
  options.compute = compute;
  const States states = body(batch, options);
  return {.log_probabilities = at::log_softmax(transformer::head_logits(states.targets, final_norm_, head_, compute), 1),
          .distance_loss = distogram_ ? distance_loss(batch, states.targets, states.all) : at::Tensor()};
}

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass; of the pair networks, whose input has no
// gradient, once again beside their being computed twice.
double EncoderDecoder::flops(const PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.hidden_dim), inner = static_cast<double>(config_.inner()),
             pair_width = static_cast<double>(config_.pair_dim), heads = static_cast<double>(config_.num_heads);
  const Rows visible = rows_of(batch, batch.visible_rows), targets = rows_of(batch, batch.target_rows);
  const auto pairs = [](const Ragged& queries, const Ragged& keys) {
    double sum = 0;
    for (int64_t s = 0; s < keys.sequences(); ++s) sum += static_cast<double>(queries.length(s)) * static_cast<double>(keys.length(s));
    return sum;
  };
  const auto rows = [](const Ragged& ragged) { return static_cast<double>(ragged.rows()); };
  const auto layers = [&](double count, const Ragged& queries, const Ragged& keys) {
    const double dense = 2 * width * (rows(queries) * (2 * width + 2 * inner) + rows(keys) * 2 * width);
    return count * 3 * (dense + 4 * pairs(queries, keys) * width) +
           4 * 2 * pairs(queries, keys) * pair_width * (static_cast<double>(kPairFeatures) + heads * count);
  };
  const auto ends = 3 * 2 * (rows(visible.samples) * width * (width + static_cast<double>(kLocalFeatures)) +
                             rows(batch.samples) * width * static_cast<double>(kLocalFeatures) + rows(targets.samples) * width * kAminoAcidCount);
  return layers(static_cast<double>(config_.num_encoder_layers), visible.samples, visible.samples) +
         layers(static_cast<double>(config_.num_decoder_layers - 1), batch.samples, batch.samples) + layers(1, targets.samples, batch.samples) + ends;
}

void EncoderDecoder::import_folder(const std::filesystem::path& folder) {
  folder_ = std::make_unique<EncoderDecoderFolder>(folder.string(), config_, parameters_);
}
void EncoderDecoder::imported(size_t index, at::Tensor& out) { folder_->read(index, out); }
void EncoderDecoder::export_folder(const std::filesystem::path& folder) const { write_encoder_decoder(folder.string(), config_, parameters_); }

}  // namespace pipeline::protein
