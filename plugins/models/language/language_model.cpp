#include "language/language_model.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "language/architecture.hpp"
#include "language/folder.hpp"
#include "transformer/coded.hpp"
#include "transformer/dropout.hpp"

namespace pipeline::language {
namespace {

// The shared gradient of a `table` that is embedding and output head; null: it is undefined, or frozen.
std::shared_ptr<transformer::SharedGradient> shared_gradient(const at::Tensor& table,
                                                             const ForwardPass& pass) {
  if (!table.defined() || !table.requires_grad()) return nullptr;
  auto shared = std::make_shared<transformer::SharedGradient>();
  if (!pass.deliver_rows) return shared;
  shared->take_head = [table, deliver = pass.deliver](at::Tensor head) { deliver(table, std::move(head)); };
  shared->take_rows = [table, deliver = pass.deliver_rows](const at::Tensor& rows, const at::Tensor& values) {
    deliver(table, rows, values);
  };
  return shared;
}

}  // namespace

LanguageModel::LanguageModel(const Config& config, ParameterPlace place, const adapters::LoraConfig& lora)
    : config_(config),
      architecture_(language::architecture(config.architecture)),
      place_(std::move(place)),
      lora_dropout_(lora.dropout) {
  config_.check();
  const Names& names = architecture_.names;
  const auto table = [&](const char* plain, int64_t rows) {
    return parameters().add({.name = name(plain),
                             .shape = {rows, config_.hidden_size},
                             .unit = unit(0),
                             .droppable = plain == std::string_view(kHead),
                             .forms = PL_FORM_BFLOAT16},
                            normal(config_.initializer_range));
  };
  embedding_ = table(names.embedding, config_.vocab_size);
  if (names.positions != nullptr) positions_ = table(names.positions, config_.max_position_embeddings);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) add_layer(i);
  last_norm_ = add_norm(names.last_norm, config_.hidden_size, unit(0));
  if (config_.label)
    add_label_head();
  else if (!config_.tie_word_embeddings && !config_.is_headless)
    head_ = table(kHead, config_.vocab_size);
  adapters::add_lora(parameters(), lora, lora_targets(config_, place_.first_unit), layers_);
  if (config_.sliding_window > 0 && architecture_.has_local_positions)
    local_frequencies_ = transformer::rotary_frequencies(
        config_.head_width(), config_.rope_local_theta > 0 ? config_.rope_local_theta : config_.rope_theta);
  if (!architecture_.is_rotary) return;
  const RopeScaling& rope = config_.rope_scaling;
  frequencies_ = rope.frequencies(config_.head_width(), config_.rope_theta);
  if (rope.type == "longrope")
    long_frequencies_ = rope.frequencies(config_.head_width(), config_.rope_theta, /*is_long=*/true);
}

// As in transformers: one matrix, of texts without a bias.
void LanguageModel::add_label_head() {
  const bool is_of_texts = config_.label->of == heads::LabelForm::Of::kSamples;
  const std::string plain = is_of_texts ? "score" : architecture_.names.of_words;
  const int64_t width = config_.hidden_size, outputs = config_.label->outputs();
  if (is_of_texts)
    label_head_.weight = transformer::add_matrix(parameters(), name(plain), width, outputs, unit(0),
                                                 config_.initializer_range);
  else
    label_head_ = transformer::add_linear(parameters(), name(plain), width, outputs, unit(0),
                                          config_.initializer_range);
}

transformer::Norm LanguageModel::add_norm(const std::string& plain, int64_t width, uint32_t of_unit) {
  if (!architecture_.is_rms)
    return transformer::add_norm(parameters(), name(plain), width, of_unit, config_.norm_eps);
  const bool is_above_one = architecture_.is_norm_above_one;
  const std::string of = name(plain) + (is_above_one ? kOffset : ".weight");
  return {.weight = parameters().add({.name = of, .shape = {width}, .decay = false, .unit = of_unit},
                                     constant(is_above_one ? 0 : 1)),
          .bias = {},
          .eps = config_.norm_eps,
          .is_above_one = is_above_one};
}

void LanguageModel::add_layer(int64_t index) {
  const Names& names = architecture_.names;
  const std::string of = names.layers + std::to_string(index) + ".";
  const uint32_t of_unit = unit(static_cast<uint32_t>(index + 1));
  const double deviation = config_.initializer_range;
  const double into_residual =
      architecture_.is_residual_scaled
          ? deviation / std::sqrt(2.0 * static_cast<double>(config_.num_hidden_layers))
          : deviation;
  // parts: of how many columns are the folder's matrices that it is made of.
  const auto linear = [&](const char* part, int64_t in, std::vector<int64_t> parts, bool has_bias,
                          double of_values) {
    const int64_t out = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    if (!names.is_split) parts = {out};
    const std::string own = name(of + part);
    if (has_bias) return transformer::add_linear(parameters(), own, in, out, of_unit, of_values, parts);
    return transformer::Linear{transformer::add_matrix(parameters(), own, in, out, of_unit, of_values, parts),
                               {}};
  };
  const auto norm = [&](const char* part, int64_t width) {
    return part == nullptr ? transformer::Norm{} : add_norm(of + part, width, of_unit);
  };
  const int64_t width = config_.hidden_size, queries = config_.query_width(), keys = config_.key_width(),
                inner = config_.inner();
  transformer::Layer layer;
  layer.attention_norm = norm(names.attention_norm, width);
  layer.qkv = linear(names.qkv, width, {queries, keys, keys}, config_.attention_bias, deviation);
  if (architecture_.has_query_norm) {
    const bool is_whole = architecture_.is_query_norm_whole;
    layer.query_norm = norm(names.query_norm, is_whole ? queries : config_.head_width());
    layer.key_norm = norm(names.key_norm, is_whole ? keys : config_.head_width());
  }
  layer.projection = linear(names.projection, queries, {width},
                            config_.attention_bias && architecture_.has_output_bias, into_residual);
  layer.mlp_norm = norm(names.mlp_norm, width);
  layer.gate = architecture_.gate;
  layer.is_local = config_.is_local(index);
  layer.is_unturned = !config_.is_turned(index);
  layer.attention_end_norm = norm(names.attention_end_norm, width);
  layer.mlp_end_norm = norm(names.mlp_end_norm, width);
  layer.up = linear(names.up, width, std::vector(layer.gate ? 2 : 1, inner), config_.mlp_bias, deviation);
  layer.down = linear(names.down, inner, {width}, config_.mlp_bias, into_residual);
  layers_.push_back(std::move(layer));
}

transformer::AttentionLayout LanguageModel::attention(int64_t layer) const {
  transformer::AttentionLayout layout{.heads = heads(), .key_heads = key_heads()};
  if (config_.is_local(layer)) layout.window = config_.sliding_window;
  if (config_.query_pre_attn_scalar > 0)
    layout.scale = 1 / std::sqrt(static_cast<double>(config_.query_pre_attn_scalar));
  layout.softcap = config_.attn_logit_softcapping;
  return layout;
}

transformer::Rotation LanguageModel::rotation(const at::Tensor& positions, bool is_local) const {
  if (!frequencies_.defined()) return {};
  if (is_local && local_frequencies_.defined()) return transformer::rotation(positions, local_frequencies_);
  const RopeScaling& rope = config_.rope_scaling;
  if (!long_frequencies_.defined()) return transformer::rotation(positions, frequencies_, rope.magnitude());
  const auto there = [&](const at::Tensor& values) {
    return transformer::to_device(values, positions.device());
  };
  const at::Tensor of_row =
      at::where(rope.is_long(positions).unsqueeze(1), there(long_frequencies_), there(frequencies_));
  return transformer::rotation(positions, of_row, rope.magnitude());
}

// The residual stream's type: that of the parameters, whatever a frozen embedding is kept in.
at::ScalarType LanguageModel::stream_type() const { return last_norm_.weight.scalar_type(); }

// Scaled as in transformers: the factor is of the embedding's type.
at::Tensor LanguageModel::scaled(const at::Tensor& embedded) const {
  if (!architecture_.is_embedding_scaled) return embedded;
  return embedded * at::scalar_tensor(std::sqrt(static_cast<double>(width())), embedded.options());
}

at::Tensor LanguageModel::body(const PackedBatch& batch, const Inserted& inserted,
                               const std::vector<int64_t>& rows, const ForwardPass& pass,
                               const std::shared_ptr<transformer::SharedGradient>& shared) const {
  const auto kind = [&](bool is_local) {
    transformer::LayerKind made{attention(0), rotation(batch.positions, is_local)};
    made.layout.window = is_local ? config_.sliding_window : 0;
    made.layout.queries = made.layout.keys = batch.sequences;
    made.layout.full_length = batch.full_length;
    return made;
  };
  const transformer::LayerKind all = kind(false);
  transformer::LayerPass layers{.layout = all.layout,
                                .rotation = all.rotation,
                                .dropout = {.attention = config_.attention_dropout,
                                            .residual = config_.residual_dropout,
                                            .lora = lora_dropout_},
                                .first_site = positions_.defined() ? 1u : 0u,  // 0 is the embedding's
                                .first_unit = unit(1)};
  if (config_.sliding_window > 0) layers.local = kind(true);
  const at::Tensor x = pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        transformer::Dropout dropout;
        if (pass.training && config_.embedding_dropout > 0)
          dropout = {config_.embedding_dropout, transformer::dropout_key(pass.dropout_seed, 0)};
        const Inserted values = in.empty() ? Inserted{} : Inserted{inserted.rows, in[0]};
        return Tensors{
            scaled(transformer::embed(batch.tokens, positions_.defined() ? batch.positions : at::Tensor(),
                                      embedding_, positions_, dropout, shared, values, stream_type()))};
      },
      inserted.rows.defined() ? Tensors{inserted.values} : Tensors{})[0];
  return transformer::run_layers(layers_, x, layers, pass, parameters(), rows);
}

WithoutAdapters::WithoutAdapters(LanguageModel& model) : model_(model), layers_(model.layers_) {
  for (transformer::Layer& layer : layers_)
    for (auto lora : {&layer.qkv_lora, &layer.projection_lora, &layer.up_lora, &layer.down_lora})
      lora->clear();
  model_.layers_.swap(layers_);
}

LossSum LanguageModel::loss_of(const at::Tensor& x, const PackedBatch& batch, const ForwardPass& pass,
                               const LossDetails& details,
                               const std::shared_ptr<transformer::SharedGradient>& shared) const {
  return transformer::cross_entropy_head(x, batch.targets, last_norm_, head(),
                                         {.scale = pass.scale,
                                          .compute = pass.compute,
                                          .softcap = config_.final_logit_softcapping,
                                          .shared = shared,
                                          .factor_is_one = true,
                                          .terms = details.terms,
                                          .row_losses = details.row_losses,
                                          .teacher = details.distillation});
}

void LanguageModel::with_logits(
    const at::Tensor& x, const ForwardPass& pass,
    const std::function<void(const std::function<at::Tensor(int64_t, int64_t)>&)>& run) const {
  const bool learns = at::GradMode::is_enabled();
  const at::NoGradGuard no_grad;
  static_cast<void>(pass.run_once(unit(0),
                                  [&](const Tensors&) {
                                    const at::AutoGradMode as_before(learns);
                                    run([&](int64_t begin, int64_t count) {
                                      return transformer::head_logits(x.narrow(0, begin, count), last_norm_,
                                                                      head(), pass.compute, {},
                                                                      config_.final_logit_softcapping);
                                    });
                                    return Tensors{};
                                  },
                                  {}));
}

LossSum LanguageModel::loss(const PackedBatch& batch, const ForwardPass& pass, const LossDetails& details,
                            const Inserted& inserted) const {
  batch.check(architecture_.name);
  const LanguageModel* const teacher = details.teacher;
  at::Tensor of_teacher;
  if (teacher != nullptr) {
    const at::NoGradGuard no_grad;
    of_teacher =
        teacher->body(batch, {}, batch.target_rows, {.compute = pass.compute, .units = pass.units}, nullptr);
  }
  const auto shared = shared_gradient(head_.defined() ? at::Tensor() : embedding_, pass);
  const at::Tensor x = body(batch, inserted, batch.target_rows, pass, shared);
  const Tensors out = pass.run_once(unit(0),
                                    [&](const Tensors& in) {
                                      Tensors made;
                                      const auto head = [&](const LossDetails& with) {
                                        const LossSum loss = loss_of(in[0], batch, pass, with, shared);
                                        made = {loss.sum, loss.scaled};
                                      };
                                      if (teacher == nullptr) {
                                        head(details);
                                      } else {
                                        teacher->with_logits(of_teacher, pass, [&](const auto& logits) {
                                          LossDetails with = details;
                                          with.distillation.logits = [&](int64_t begin, int64_t count) {
                                            // The same tokens: either model may have rows behind them.
                                            const at::Tensor all = logits(begin, count);
                                            return teacher->config_.vocab_size == config_.vocab_size
                                                       ? all
                                                       : all.narrow(1, 0, config_.vocab_size);
                                          };
                                          head(with);
                                        });
                                      }
                                      return made;
                                    },
                                    {x});
  return {out[0], out[1]};
}

at::Tensor LanguageModel::row_losses(const PackedBatch& batch, const ForwardPass& pass) const {
  batch.check(architecture_.name);
  const auto shared = shared_gradient(head_.defined() ? at::Tensor() : embedding_, pass);
  const at::Tensor x = body(batch, {}, batch.target_rows, pass, shared);
  return pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        return Tensors{transformer::cross_entropy_rows(
            in[0], batch.targets, last_norm_, head(),
            {.compute = pass.compute, .softcap = config_.final_logit_softcapping, .shared = shared})};
      },
      {x})[0];
}

at::Tensor LanguageModel::with_labels(
    const PackedBatch& batch, const ForwardPass& pass,
    const std::function<at::Tensor(const at::Tensor& outputs)>& then) const {
  batch.check(architecture_.name);
  return pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        const at::Tensor normed = transformer::norm_rows(in[0], last_norm_);
        return Tensors{then(transformer::linear(normed.to(pass.compute), label_head_).to(at::kFloat))};
      },
      {body(batch, {}, batch.target_rows, pass, nullptr)})[0];
}

at::Tensor LanguageModel::last_rows(const PackedBatch& batch, const std::vector<int64_t>& rows,
                                    const ForwardPass& pass) const {
  batch.check(architecture_.name);
  return pass.run_once(
      unit(0),
      [&](const Tensors& in) { return Tensors{transformer::norm_rows(in[0], last_norm_).to(at::kFloat)}; },
      {body(batch, {}, rows, pass, nullptr)})[0];
}

at::Tensor LanguageModel::logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute,
                                 const Inserted& inserted) const {
  const at::NoGradGuard no_grad;
  const at::Tensor host = rows.to(at::kCPU).contiguous();
  const std::vector<int64_t> wanted(host.const_data_ptr<int64_t>(),
                                    host.const_data_ptr<int64_t>() + host.numel());
  return transformer::head_logits(body(batch, inserted, wanted, {.compute = compute}, nullptr), last_norm_,
                                  head(), compute, {}, config_.final_logit_softcapping);
}

transformer::LikeliestTokens LanguageModel::likeliest_tokens(const PackedBatch& batch, at::ScalarType compute,
                                                             int64_t vocabulary, int64_t k,
                                                             double temperature) const {
  constexpr int64_t kRows = 256;  // whose logits exist at a time
  const at::NoGradGuard no_grad;
  batch.check(architecture_.name);
  const at::Tensor x = body(batch, {}, batch.target_rows, {.compute = compute}, nullptr);
  std::vector<at::Tensor> ids, log_p;
  for (int64_t begin = 0; begin < x.size(0); begin += kRows) {
    const at::Tensor rows = x.narrow(0, begin, std::min(kRows, x.size(0) - begin));
    const at::Tensor logits =
        transformer::head_logits(rows, last_norm_, head(), compute, {}, config_.final_logit_softcapping);
    const auto likeliest = transformer::likeliest_tokens(logits.narrow(1, 0, vocabulary), k, temperature);
    ids.push_back(likeliest.ids);
    log_p.push_back(likeliest.log_p);
  }
  return {at::cat(ids), at::cat(log_p)};
}

// Counts the products that are computed: 2 m n k each, and twice that again for the backward pass. The output
// head is computed where there is a target, attention on the lower triangle or in a window of it.
double LanguageModel::flops(const PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.hidden_size),
             queries = static_cast<double>(config_.query_width()),
             keys = static_cast<double>(config_.key_width()), inner = static_cast<double>(config_.inner());
  double layers = 0;
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const int64_t window = config_.is_local(layer) ? config_.sliding_window : 0;
    for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
      const int64_t length = batch.sequences.length(s);
      const int64_t outside = window > 0 ? std::max<int64_t>(length - window, 0) : 0;
      layers += 2 * static_cast<double>(length * length - outside * outside) * queries;
    }
    layers += 2 * static_cast<double>(batch.sequences.rows()) * width *
              (2 * queries + 2 * keys + (architecture_.gate ? 3 : 2) * inner);
  }
  const int64_t outputs = config_.is_headless ? 0
                          : config_.label     ? config_.label->outputs()
                                              : config_.vocab_size;
  const double head =
      2 * static_cast<double>(batch.target_rows.size()) * width * static_cast<double>(outputs);
  return 3 * (layers + head);
}

at::Tensor LanguageModel::embed_with(const at::Tensor& tokens, const at::Tensor& positions,
                                     const Inserted& inserted) const {
  return scaled(transformer::embed(tokens, positions_.defined() ? positions : at::Tensor(), embedding_,
                                   positions_, {}, nullptr, inserted, stream_type()));
}

at::Tensor LanguageModel::layer(int64_t index, const at::Tensor& x, const at::Tensor& positions,
                                at::ScalarType compute, const Attention& attend) const {
  const transformer::Layer& layer = layers_[static_cast<size_t>(index)];
  const bool is_turned = frequencies_.defined() && !layer.is_unturned;
  const at::Tensor qkv = transformer::attention_input(
      layer, x, 0, transformer::outputs(layer.qkv.weight),
      is_turned ? rotation(positions, layer.is_local) : transformer::Rotation{}, compute);
  return transformer::after_attention(layer, 0, attend(qkv), x, {}, {.compute = compute});
}

at::Tensor LanguageModel::logits_of(const at::Tensor& x, at::ScalarType compute) const {
  const at::Tensor all =
      transformer::head_logits(x, last_norm_, head(), compute, {}, config_.final_logit_softcapping);
  return config_.written_tokens > 0 ? all.narrow(1, 0, config_.written_tokens) : all;
}

}  // namespace pipeline::language
