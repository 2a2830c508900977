#include "plugins/models/protein/encoder_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/protein/geometry.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/embedding.hpp"
#include "transformer/layer_norm.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {
namespace {

using transformer::AttentionLayout;
using transformer::Layer;
using transformer::Linear;

constexpr int64_t kDistogramWidth = 64;

// Some rows of a batch, ascending.
struct Rows {
  std::vector<int64_t> numbers;
  Ragged samples;
  at::Tensor index;  // numbers, on the batch's device
};

Rows rows_of(const PackedProteins& batch, const std::vector<int64_t>& numbers) {
  Rows rows{
      .numbers = numbers, .samples = {}, .index = transformer::to_device(numbers, batch.tokens.device())};
  auto next = numbers.begin();
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
    const auto end = std::lower_bound(next, numbers.end(), batch.sequences.start(s + 1));
    rows.samples.append(end - next);
    next = end;
  }
  return rows;
}

at::Tensor linear_in_its_type(const at::Tensor& x, const Linear& l) {
  return transformer::linear(x.to(l.weight.scalar_type()), l);
}

// What has to be the same for the weights to mean the same.
std::vector<std::pair<const char*, int64_t>> shape_of(const EncoderDecoderConfig& config) {
  return {{"hidden_dim", config.hidden_dim},
          {"num_encoder_layers", config.num_encoder_layers},
          {"num_decoder_layers", config.num_decoder_layers},
          {"num_heads", config.num_heads},
          {"feed_forward_dim", config.inner()},
          {"pair_dim", config.pair_dim}};
}

void check_config(const std::string& path, const EncoderDecoderConfig& config) {
  const hugging_face::ConfigFile file(path + "/config.json");
  file.type({kEncoderDecoderType});
  check_only(file, "amino_acids",
             hugging_face::required(
                 std::string(residues::kAminoAcids)));  // what the rows of embeddings and head stand for
  hugging_face::Differences differences;
  const auto compare = [&](const char* key, const nlohmann::json& ours) {
    const nlohmann::json* const theirs = file.find(key);
    differences.compare(std::string("task.") + key, ours, theirs == nullptr ? nlohmann::json() : *theirs);
  };
  for (const auto& [key, ours] : shape_of(config)) compare(key, ours);
  compare("layer_norm_epsilon", config.layer_norm_epsilon);
  differences.raise(path);
}

Tensors with_first(at::Tensor first, const Tensors& rest) {
  Tensors all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

at::Tensor bins_of(const at::Tensor& from, const at::Tensor& to) {  // (T, N) of one sample
  const at::Tensor distance = (from.unsqueeze(1) - to.unsqueeze(0)).square().sum(-1).sqrt();
  return distance.sub(kFirstDistance).div(kDistanceStep).floor().clamp(0, kDistanceBins - 1).to(at::kLong);
}

}  // namespace

EncoderDecoder::EncoderDecoder(const EncoderDecoderConfig& config) : config_(config) {
  const int64_t width = config_.hidden_dim, layers = config_.num_encoder_layers + config_.num_decoder_layers;
  TORCH_CHECK(width % config_.num_heads == 0, "hidden_dim ", width, " must be a multiple of num_heads ",
              config_.num_heads);
  const double range = config_.initializer_range, epsilon = config_.layer_norm_epsilon;
  const double of_local = 1 / std::sqrt(static_cast<double>(kLocalFeatures)) / 4;
  const transformer::LayerShape shape{.width = width,
                                      .inner = config_.inner(),
                                      .epsilon = epsilon,
                                      .deviation = range,
                                      .into_residual = range / std::sqrt(2.0 * static_cast<double>(layers))};
  uint32_t unit = 0;
  const auto linear = [&](const char* name, int64_t in, int64_t out, double deviation) {
    return transformer::add_linear(parameters_, name, in, out, unit, deviation);
  };
  const auto norm = [&](const char* name) {
    return transformer::add_norm(parameters_, name, width, unit, epsilon);
  };
  const auto add_layers = [&](std::vector<Layer>& to, const std::string& name, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to.push_back(transformer::add_layer(parameters_, name + std::to_string(i), ++unit, shape,
                                          {"attention_norm", "qkv", "projection", "mlp_norm", "up", "down"}));
  };
  token_embedding_ = parameters_.add(
      {.name = "encoder.tokens", .shape = {residues::kTokenCount, width}, .decay = false}, normal(range));
  encoder_local_ = linear("encoder.local", kLocalFeatures, width, of_local);
  encoder_pairs_ = make_pairs("encoder.pairs", config_.num_encoder_layers, unit);
  add_layers(encoder_, "encoder.layers.", config_.num_encoder_layers);
  ++unit;  // what is between encoder and decoder
  encoder_norm_ = norm("decoder.input_norm");
  bridge_ = linear("decoder.input", width, width, range);
  mask_embedding_ = parameters_.add({.name = "decoder.mask", .shape = {width}, .decay = false, .unit = unit},
                                    normal(range));
  decoder_local_ = linear("decoder.local", kLocalFeatures, width, of_local);
  decoder_pairs_ = make_pairs("decoder.pairs", config_.num_decoder_layers, unit);
  add_layers(decoder_, "decoder.layers.", config_.num_decoder_layers);
  unit = 0;
  final_norm_ = norm("head.norm");
  head_ =
      parameters_.add({.name = "head.weight", .shape = {residues::kAminoAcidCount, width}}, normal(range));
  if (config_.distogram > 0) {
    const auto project = [&](const char* name) {
      return parameters_.add({.name = name, .shape = {width, kDistogramWidth}},
                             normal(1 / std::sqrt(static_cast<double>(width))));
    };
    distogram_ = DistogramHead{.target_norm = norm("distogram.target_norm"),
                               .other_norm = norm("distogram.other_norm"),
                               .target = project("distogram.target"),
                               .other = project("distogram.other"),
                               .out = linear("distogram.out", kDistogramWidth, kDistanceBins, range)};
  }
}

// Hidden values of about one, and biases that start at zero: attention begins as that of a plain transformer.
PairNetwork EncoderDecoder::make_pairs(const std::string& name, int64_t layers, uint32_t unit) {
  const int64_t width = config_.pair_dim, heads = config_.num_heads;
  return {
      .weight = parameters_.add({.name = name + ".weight", .shape = {kPairFeatures, width}, .unit = unit},
                                normal(0.3)),
      .offsets = parameters_.add(
          {.name = name + ".offsets", .shape = {kOffsets, width}, .decay = false, .unit = unit}, normal(0.3)),
      .out = parameters_.add({.name = name + ".out", .shape = {layers, width, heads}, .unit = unit},
                             constant(0))};
}

EncoderDecoder::States EncoderDecoder::body(const PackedProteins& batch, const ForwardPass& pass) const {
  const Rows visible = rows_of(batch, batch.visible_rows), targets = rows_of(batch, batch.target_rows);
  const auto of_visible = [&](const at::Tensor& x) { return x.index_select(0, visible.index); };
  const auto layout = [&](const Ragged& queries, const Ragged& keys) {
    return transformer::shared_by_layers(
        {.queries = queries, .keys = keys, .heads = config_.num_heads, .causal = false});
  };
  const auto among = [&](const Ragged& rows) {
    return transformer::LayerPass{
        .layout = layout(rows, rows),
        .dropout = {.attention = config_.attention_dropout, .residual = config_.dropout}};
  };
  const transformer::LayerPass among_visible = among(visible.samples), among_all = among(batch.sequences);
  const transformer::RowsOfLayer at_targets{.index = targets.index,
                                            .layout = layout(targets.samples, batch.sequences)};

  const Tensors x = pass.run_once(
      0,
      [&](const Tensors&) {
        const at::Tensor start = transformer::look_up(token_embedding_, of_visible(batch.tokens)) +
                                 linear_in_its_type(of_visible(batch.local), encoder_local_);
        return with_first(start, pair_bias({.frames = of_visible(batch.frames),
                                            .flags = of_visible(batch.flags),
                                            .positions = of_visible(batch.positions),
                                            .chains = of_visible(batch.chains),
                                            .layout = among_visible.layout,
                                            .query_rows = {}},
                                           encoder_pairs_));
      },
      {});
  uint32_t unit = 1;
  uint64_t number = 0;
  const auto run = [&](const Layer& layer, const at::Tensor& input, const at::Tensor& bias,
                       const transformer::LayerPass& shared, const transformer::RowsOfLayer& rows) {
    const uint32_t own = unit++;
    // The body may run again in the backward pass, when all of this is gone.
    const LayerFn body = [layer, number = number++, shared, pass, rows](const Tensors& in) {
      return Tensors{transformer::run_layer(layer, number, in[0], shared, pass, rows, in[1])};
    };
    return pass.run(own, body, {input, bias}, parameters_.of_unit(own))[0];
  };
  at::Tensor h = x[0];
  for (size_t i = 0; i < encoder_.size(); ++i) h = run(encoder_[i], h, x[i + 1], among_visible, {});

  const Tensors y = pass.run_once(
      unit++,
      [&](const Tensors& in) {
        const at::Tensor seen =
            transformer::norm_linear(in[0], encoder_norm_, bridge_, pass.compute).to(in[0].scalar_type());
        // Every row is the mask's vector first; visible ones are then put in their places.
        const at::Tensor start = mask_embedding_.expand({batch.tokens.size(0), config_.hidden_dim})
                                     .index_copy(0, visible.index, seen) +
                                 linear_in_its_type(batch.local, decoder_local_);
        PairInputs pairs{.frames = batch.frames,
                         .flags = batch.flags,
                         .positions = batch.positions,
                         .chains = batch.chains,
                         .layout = among_all.layout,
                         .query_rows = {}};
        const int64_t whole = config_.num_decoder_layers - 1;
        Tensors biases;
        PairNetwork network = decoder_pairs_;
        network.out = decoder_pairs_.out.narrow(0, 0, whole);
        if (whole > 0) biases = pair_bias(pairs, network);
        network.out = decoder_pairs_.out.narrow(0, whole, 1);
        pairs.layout = at_targets.layout;
        pairs.query_rows = targets.numbers;
        biases.push_back(pair_bias(pairs, network)[0]);
        return with_first(start, biases);
      },
      {h});
  h = y[0];
  for (size_t i = 0; i + 1 < decoder_.size(); ++i) h = run(decoder_[i], h, y[i + 1], among_all, {});
  return {run(decoder_.back(), h, y.back(), among_all, at_targets), h};
}

LossSum EncoderDecoder::loss(const PackedProteins& batch, const ForwardPass& pass) const {
  const States states = body(batch, pass);
  const Tensors inputs = distogram_ ? Tensors{states.targets, states.all} : Tensors{states.targets};
  const Tensors out = pass.run_once(
      0,
      [&](const Tensors& in) {
        const LossSum loss = transformer::cross_entropy_head(
            in[0], batch.targets, final_norm_, head_,
            {.scale = pass.scale, .compute = pass.compute, .factor_is_one = true});
        if (!distogram_) return Tensors{loss.sum, loss.scaled};
        const at::Tensor distances = config_.distogram * distance_loss(batch, in[0], in[1]);
        return Tensors{loss.sum + distances.detach(), loss.scaled + distances * pass.scale};
      },
      inputs);
  return {out[0], out[1]};
}

at::Tensor EncoderDecoder::distance_loss(const PackedProteins& batch, const at::Tensor& targets,
                                         const at::Tensor& all) const {
  return distogram_loss({.targets = targets,
                         .others = all,
                         .places = batch.places,
                         .placed = batch.placed,
                         .samples = batch.sequences,
                         .target_samples = rows_of(batch, batch.target_rows).samples,
                         .target_rows = batch.target_rows,
                         .hidden = batch.tokens.eq(residues::kMaskToken)},
                        *distogram_);
}

Outputs EncoderDecoder::outputs(const PackedProteins& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  const States states = body(batch, pass);
  return {.log_probabilities =
              at::log_softmax(transformer::head_logits(states.targets, final_norm_, head_, pass.compute), 1),
          .distance_loss = distogram_ ? distance_loss(batch, states.targets, states.all) : at::Tensor()};
}

Embeddings EncoderDecoder::embeddings(const PackedProteins& batch, const ForwardPass& pass,
                                      int64_t layer) const {
  if (layer != layers())
    fail_with(PL_ERROR_CONFIG, "layer ", layer,
              " of the encoder-decoder: its embeddings are those of its last one, ", layers());
  const at::NoGradGuard no_grad;
  PackedProteins all = batch;
  all.target_rows.resize(static_cast<size_t>(batch.sequences.rows()));
  std::iota(all.target_rows.begin(), all.target_rows.end(), 0);
  const States states = body(all, pass);
  return {.residues =
              transformer::layer_norm(states.targets, final_norm_.weight, final_norm_.bias, final_norm_.eps)
                  .y.to(at::kFloat),
          .chains = {}};
}

// Counts the products that are computed: 2 m n k each, and twice that again for the backward pass; those of
// the pair networks, whose input has no gradient, once again beside their being computed twice.
double EncoderDecoder::flops(const PackedProteins& batch) const {
  const auto width = static_cast<double>(config_.hidden_dim), inner = static_cast<double>(config_.inner()),
             pair_width = static_cast<double>(config_.pair_dim),
             heads = static_cast<double>(config_.num_heads);
  const Rows visible = rows_of(batch, batch.visible_rows), targets = rows_of(batch, batch.target_rows);
  const auto pairs = [](const Ragged& queries, const Ragged& keys) {
    double sum = 0;
    for (int64_t s = 0; s < keys.sequences(); ++s)
      sum += static_cast<double>(queries.length(s)) * static_cast<double>(keys.length(s));
    return sum;
  };
  const auto rows = [](const Ragged& ragged) { return static_cast<double>(ragged.rows()); };
  const auto layers = [&](double count, const Ragged& queries, const Ragged& keys) {
    const double dense = 2 * width * (rows(queries) * (2 * width + 2 * inner) + rows(keys) * 2 * width);
    return count * 3 * (dense + 4 * pairs(queries, keys) * width) +
           4 * 2 * pairs(queries, keys) * pair_width * (static_cast<double>(kPairFeatures) + heads * count);
  };
  const auto ends = 3 * 2 *
                    (rows(visible.samples) * width * (width + static_cast<double>(kLocalFeatures)) +
                     rows(batch.sequences) * width * static_cast<double>(kLocalFeatures) +
                     rows(targets.samples) * width * residues::kAminoAcidCount);
  return layers(static_cast<double>(config_.num_encoder_layers), visible.samples, visible.samples) +
         layers(static_cast<double>(config_.num_decoder_layers - 1), batch.sequences, batch.sequences) +
         layers(1, targets.samples, batch.sequences) + ends;
}

void EncoderDecoder::import_folder(const std::filesystem::path& folder) {
  check_config(folder.string(), config_);
  hugging_face::import_weights(folder.string(), parameters_);
}

void EncoderDecoder::export_folder(const std::filesystem::path& folder) const {
  hugging_face::export_weights(folder.string(), parameters_);
  nlohmann::ordered_json json{{"model_type", kEncoderDecoderType}};
  for (const auto& [key, value] : shape_of(config_)) json[key] = value;
  json["layer_norm_epsilon"] = config_.layer_norm_epsilon;
  json["amino_acids"] = residues::kAminoAcids;
  hugging_face::write_text((folder / "config.json").string(), json.dump(2) + "\n");
}

at::Tensor distogram_loss(const DistogramInputs& inputs, const DistogramHead& head) {
  const auto product = [](const at::Tensor& x, const at::Tensor& weight) {
    return transformer::linear(x, {.weight = weight, .bias = {}});  // on any number of threads the same bits
  };
  const at::Tensor a = product(transformer::norm_rows(inputs.targets, head.target_norm), head.target),
                   b = product(transformer::norm_rows(inputs.others, head.other_norm), head.other);
  // Leads to the parameters even where nothing is masked.
  at::Tensor sum = at::zeros({}, a.options().dtype(at::kFloat)) + (a.sum(at::kFloat) + b.sum(at::kFloat)) * 0;
  for (int64_t s = 0; s < inputs.samples.sequences(); ++s) {
    const int64_t count = inputs.target_samples.length(s), begin = inputs.samples.start(s),
                  length = inputs.samples.length(s);
    if (count == 0) continue;
    const int64_t* const rows = inputs.target_rows.data() + inputs.target_samples.start(s);
    const at::Tensor index = transformer::to_device({rows, static_cast<size_t>(count)}, a.device());
    const at::Tensor from = inputs.places.index_select(0, index), to = inputs.places.narrow(0, begin, length);
    const at::Tensor features = a.narrow(0, inputs.target_samples.start(s), count).unsqueeze(1) *
                                b.narrow(0, begin, length).unsqueeze(0);
    const at::Tensor logits = transformer::linear(features.flatten(0, 1), head.out).view({count, length, -1});
    const at::Tensor log_p = at::log_softmax(logits, -1, at::kFloat);  // (count, length, bins)
    const at::Tensor nll = log_p.gather(2, bins_of(from, to).unsqueeze(2)).squeeze(2).neg();
    const at::Tensor self =
        index.unsqueeze(1).eq(at::arange(begin, begin + length, index.options()).unsqueeze(0));
    const at::Tensor counts = inputs.placed.logical_and(inputs.hidden)
                                  .index_select(0, index)
                                  .unsqueeze(1)
                                  .logical_and(inputs.placed.narrow(0, begin, length).unsqueeze(0))
                                  .logical_and(self.logical_not())
                                  .to(nll.scalar_type());
    sum = sum + ((nll * counts).sum(1) / counts.sum(1).clamp_min(1)).sum();
  }
  return sum;
}

}  // namespace pipeline::protein
