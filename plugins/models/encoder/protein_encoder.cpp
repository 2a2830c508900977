#include "plugins/models/encoder/protein_encoder.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>

#include <numeric>

#include "heads/label_folder.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/models/protein/label_head.hpp"
#include "transformer/dropout.hpp"
#include "transformer/layer_norm.hpp"

namespace pipeline::encoder {
namespace {

constexpr uint64_t kLabelDropout = uint64_t{1} << 32;  // beside those of layers

at::Tensor from_table(const TokenTable& table, const at::Tensor& tokens) {
  return transformer::to_device(table, tokens.device()).index_select(0, tokens);
}

}  // namespace

ProteinEncoder::ProteinEncoder(const Architecture& row, const Config& config,
                               const adapters::LoraOptions& lora, const ParameterRegistry::Rule& rule)
    : row_(row), config_(config), lora_(lora) {
  parameters_.set_rule([this, rule](Parameter& parameter) {
    // What a model is pretrained with and what it is then to learn need not be the same.
    const bool is_of_labels = heads::is_of_label_head(parameter.name);
    parameter.is_new = parameter.is_new || is_of_labels;
    parameter.droppable = is_of_labels || parameter.name.starts_with("lm_head.");
    parameter.trainable = adapters::is_trained(parameter, lora_);
    if (rule) rule(parameter);
  });
  encoder_.emplace(row_, config_, parameters_);
  set_extras({});
  last_norm_ = encoder_->last_norm();
  if (config_.label)
    label_head_.emplace(parameters_, *config_.label, config_.hidden_size, config_.initializer_range,
                        row_.names.of_residues);
  else
    head_ = TokenHead(row_, config_, parameters_, encoder_->words());
  encoder_->add_lora(lora_);
  start_from_adapter();
}

void ProteinEncoder::start_from_adapter() { lora_.start(parameters_, adapted_model(row_, config_)); }

transformer::LayerPass ProteinEncoder::layer_pass(const Sequences& sequences) const {
  transformer::LayerPass layers = encoder_->layer_pass(sequences.rows);
  layers.rotation = transformer::rotation(sequences.positions, frequencies_);
  return layers;
}

at::Tensor ProteinEncoder::embedded(const Sequences& sequences, const ForwardPass& pass) const {
  return encoder_->embedded(sequences.tokens, sequences.positions, pass, sequences.scale);
}

at::Tensor ProteinEncoder::body(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const Sequences sequences(batch, config_.token_dropout);
  std::vector<int64_t> rows = sequences.targets;
  if (config_.label &&
      config_.label->of == protein::LabelForm::Of::kSamples)  // at <cls>, before the first residue
    for (int64_t& row : rows) --row;
  return transformer::run_layers(encoder_->layers(), embedded(sequences, pass), layer_pass(sequences), pass,
                                 parameters_, rows);
}

protein::Embeddings ProteinEncoder::embeddings(const protein::PackedProteins& batch, const ForwardPass& pass,
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
  transformer::LayerPass shared = layer_pass(sequences);
  const std::vector<transformer::Layer>& layers = encoder_->layers();
  const auto middle = layers.begin() + layer;
  at::Tensor x = transformer::run_layers({layers.begin(), middle}, embedded(sequences, pass), shared, pass,
                                         parameters_, all);
  at::Tensor rest = x;
  shared.first_unit += static_cast<uint32_t>(layer);
  // Every batch passes through all units (pipeline/torch/units.hpp).
  if (pass.units != nullptr && middle != layers.end())
    rest = transformer::run_layers({middle, layers.end()}, x, shared, pass, parameters_, all);
  const at::Tensor last = pass.run_once(
      0,
      [&](const Tensors& in) {
        return Tensors{
            transformer::layer_norm(in[0], last_norm_.weight, bias_of(last_norm_), last_norm_.eps).y};
      },
      {rest})[0];
  const double stream = row_.stream(config_);
  if (middle == layers.end())
    x = last;
  else if (stream != 1)
    x = x / stream;
  const auto rows_of_x = [&](const std::vector<int64_t>& rows) {
    return x.index_select(0, transformer::to_device(rows, x.device())).to(at::kFloat);
  };
  return {.residues = rows_of_x(residues), .chains = rows_of_x(chains)};
}

at::Tensor ProteinEncoder::with_label_outputs(
    const protein::PackedProteins& batch, const ForwardPass& pass,
    const std::function<at::Tensor(const at::Tensor&)>& then) const {
  const transformer::Dropout dropout{pass.training ? config_.hidden_dropout : 0,
                                     transformer::dropout_key(pass.dropout_seed, kLabelDropout)};
  return pass.run_once(0,
                       [&](const Tensors& in) {
                         const at::Tensor normed = transformer::norm_rows(in[0], last_norm_);
                         return Tensors{then(label_head_->outputs(normed, batch, dropout, pass.compute))};
                       },
                       {body(batch, pass)})[0];
}

at::Tensor ProteinEncoder::labels(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(label_head_, "the model predicts no labels");
  return with_label_outputs(
      batch, pass, [&](const at::Tensor& outputs) { return heads::told(label_head_->form(), outputs); });
}

LossSum ProteinEncoder::loss(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  if (label_head_)
    return LossSum(with_label_outputs(
        batch, pass, [&](const at::Tensor& outputs) { return label_head_->loss(outputs, batch); }));
  const at::Tensor targets = from_table(token_table(), batch.targets);
  const Tensors out = pass.run_once(0,
                                    [&](const Tensors& in) {
                                      const LossSum loss = head_.loss(in[0], last_norm_, targets, pass);
                                      return Tensors{loss.sum, loss.scaled};
                                    },
                                    {body(batch, pass)});
  return {out[0], out[1]};
}

at::Tensor ProteinEncoder::logits(const protein::PackedProteins& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(!label_head_, "the model predicts labels: it has no head for masked residues");
  return pass.run_once(
      0, [&](const Tensors& in) { return Tensors{head_.logits(in[0], last_norm_, pass.compute)}; },
      {body(batch, pass)})[0];
}

protein::Outputs ProteinEncoder::outputs(const protein::PackedProteins& batch,
                                         const ForwardPass& pass) const {
  const at::Tensor all = logits(batch, pass);
  const at::Tensor amino_acids =
      at::arange(residues::kAminoAcidCount, at::TensorOptions(all.device()).dtype(at::kLong));
  const at::Tensor twenty = all.index_select(1, from_table(token_table(), amino_acids));
  return {.log_probabilities = at::log_softmax(twenty, 1),
          .log_share = at::logsumexp(twenty, 1) - at::logsumexp(all, 1),
          .distance_loss = {}};
}

// Counts the products that are computed: 2 m n k each, and twice that again for the backward pass.
double ProteinEncoder::flops(const protein::PackedProteins& batch) const {
  const Sequences sequences(batch, false);
  const auto width = static_cast<double>(config_.hidden_size),
             rows = static_cast<double>(sequences.rows.rows()),
             targets = static_cast<double>(sequences.targets.size());
  double all_pairs = 0, target_pairs = 0;
  size_t next = 0;
  for (int64_t s = 0; s < sequences.rows.sequences(); ++s) {
    const auto length = static_cast<double>(sequences.rows.length(s));
    all_pairs += length * length;
    for (; next < sequences.targets.size() && sequences.targets[next] < sequences.rows.start(s + 1); ++next)
      target_pairs += length;
  }
  const double last = transformer::few_rows(sequences.targets.size(), sequences.rows.rows())
                          ? encoder_->layer_flops(rows, targets, target_pairs)
                          : encoder_->layer_flops(rows, rows, all_pairs);
  const double head = label_head_
                          ? label_head_->products(targets, all_pairs, width)
                          : 2 * targets * (width * width + width * static_cast<double>(head_.tokens()));
  const double others = encoder_->layer_flops(rows, rows, all_pairs);
  return 3 * (static_cast<double>(config_.num_hidden_layers - 1) * others + last + head);
}

void ProteinEncoder::import_folder(const std::filesystem::path& folder) {
  set_extras(encoder::import_folder(folder.string(), row_, config_, parameters_));
  start_from_adapter();  // after what is the whole model's
}

void ProteinEncoder::export_folder(const std::filesystem::path& folder) const {
  if (lora_.exports_adapter()) {
    if (config_.label) heads::write_adapter_label(folder.string(), *config_.label, row_.classes);
    return adapters::export_adapter(folder.string(), parameters_, lora_, adapted_model(row_, config_),
                                    lora_.base_model);
  }
  encoder::export_folder(folder.string(), row_, config_, parameters_, extras_,
                         [&](const ParameterRegistry::Declared& parameter) {
                           return adapters::merged(parameter, encoder_->layers());
                         });
}

void ProteinEncoder::set_extra_state(std::string_view state) {
  set_extras(Extras::unpack(state, row_, config_));
}

void ProteinEncoder::set_extras(Extras extras) {
  extras_ = std::move(extras);
  frequencies_ = extras_.frequencies.defined() ? extras_.frequencies
                                               : transformer::rotary_frequencies(config_.head_width());
}

}  // namespace pipeline::encoder
