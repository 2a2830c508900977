#include "language/gpt2.hpp"

#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/dropout.hpp"
#include "transformer/embedding.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

// The causal mask, kept as a buffer by older versions of transformers.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

constexpr const char* kEmbedding = "transformer.wte.weight";

// more_tokens: that the folder's vocabulary has behind ours; below 0: that ours has behind the folder's.
hugging_face::NameMap gpt2_names(const Gpt2& model, int64_t more_tokens = 0) {
  constexpr const char *kPrefix = "transformer.", *kHead = "lm_head.weight";
  return {.pieces =
              [&model, more_tokens](const Parameter& parameter) {
                const std::string& prefix = model.place().prefix;
                std::vector<hugging_face::Piece> pieces;
                if (!parameter.name.starts_with(prefix)) return pieces;
                pieces.push_back({.name = parameter.name.substr(prefix.size())});
                if (pieces.front().name == kEmbedding) pieces.front().more_rows = more_tokens;
                return pieces;
              },
          .plain_name =
              [](const std::string& name) {
                if (is_mask(name)) return std::string();
                return name == kHead || name.starts_with(kPrefix) ? name : kPrefix + name;
              },
          .head = kHead,
          .tied_to = kEmbedding};
}

const hugging_face::Fields<Gpt2Config>& gpt2_fields() {
  using namespace hugging_face;
  static const Fields<Gpt2Config> kFields{
      {"vocab_size", &Gpt2Config::vocab_size},
      {"n_positions", &Gpt2Config::n_positions},
      {"n_embd", &Gpt2Config::n_embd},
      {"n_layer", &Gpt2Config::n_layer},
      {"n_head", &Gpt2Config::n_head},
      {"n_inner", &Gpt2Config::n_inner},
      {"layer_norm_epsilon", &Gpt2Config::layer_norm_epsilon},
      {"initializer_range", &Gpt2Config::initializer_range},
      {"embd_pdrop", &Gpt2Config::embd_pdrop},
      {"attn_pdrop", &Gpt2Config::attn_pdrop},
      {"resid_pdrop", &Gpt2Config::resid_pdrop},
      {"activation_function", only({"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})},  // one function
      {"scale_attn_weights", only({true})},
      {"scale_attn_by_inverse_layer_idx", only({false})},
      {"tie_word_embeddings", only({true})},
      {"reorder_and_upcast_attn", kWithoutEffect},  // the same, in another precision
      {"n_ctx", kWithoutEffect},                    // an old name of n_positions
      {"summary_type", kWithoutEffect},
      {"summary_use_proj", kWithoutEffect},
      {"summary_activation", kWithoutEffect},
      {"summary_proj_to_labels", kWithoutEffect},
      {"summary_first_dropout", kWithoutEffect},
  };
  return kFields;
}

std::string format_gpt2_config(const Gpt2Config& config) {
  json values = {
      {"model_type", "gpt2"},
      {"architectures", {"GPT2LMHeadModel"}},
      {"activation_function", "gelu_new"},
      {"n_ctx", config.n_positions},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", true},
      {"use_cache", true},
      {"torch_dtype", "float32"},
      {"bos_token_id", config.bos_token_id},
      {"eos_token_id", config.eos_token_id},
  };
  hugging_face::write_fields(config, gpt2_fields(), values);
  if (config.n_inner == 0) values["n_inner"] = nullptr;
  return values.dump(2) + "\n";
}

}  // namespace

void Gpt2Config::check() const {
  using namespace hugging_face;
  // Beyond any machine, and no product of them overflows.
  constexpr int64_t kMostRows = 1 << 24, kMostWidth = 1 << 20, kMostLayers = 1 << 14;
  check_range("vocab_size", vocab_size, 1, kMostRows);
  check_range("n_positions", n_positions, 1, kMostRows);
  check_range("n_embd", n_embd, 1, kMostWidth);
  check_range("n_layer", n_layer, 1, kMostLayers);
  check_range("n_head", n_head, 1, kMostWidth);
  check_range("n_inner", n_inner, 0, kMostWidth);
  if (n_embd % n_head != 0)
    fail_with(PL_ERROR_CONFIG, "n_head = ", n_head, ": must divide n_embd (", n_embd, ")");
  check_positive("layer_norm_epsilon", layer_norm_epsilon);
  check_positive("initializer_range", initializer_range);
  check_share("embd_pdrop", embd_pdrop);
  check_share("attn_pdrop", attn_pdrop);
  check_share("resid_pdrop", resid_pdrop);
}

Gpt2::Gpt2(const Gpt2Config& config, Place place) : LanguageModel(std::move(place)), config_(config) {
  config_.check();
  const int64_t width = config_.n_embd;
  const double range = config_.initializer_range;
  const auto embedding = [&](const char* plain, int64_t rows) {
    return parameters().add({.name = name(plain), .shape = {rows, width}, .unit = unit(0)}, normal(range));
  };
  wte_ = embedding("transformer.wte.weight", config_.vocab_size);
  wpe_ = embedding("transformer.wpe.weight", config_.n_positions);
  const transformer::LayerShape shape{
      .width = width,
      .inner = config_.inner(),
      .epsilon = config_.layer_norm_epsilon,
      .deviation = range,
      .into_residual = range / std::sqrt(2.0 * static_cast<double>(config_.n_layer))};
  for (int64_t i = 0; i < config_.n_layer; ++i) {
    layers_.push_back(transformer::add_layer(
        parameters(), name("transformer.h." + std::to_string(i)), unit(static_cast<uint32_t>(i + 1)), shape,
        {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"}));
  }
  final_norm_ = transformer::add_norm(parameters(), name("transformer.ln_f"), width, unit(0),
                                      config_.layer_norm_epsilon);
}

at::Tensor Gpt2::body(const PackedBatch& batch, const Inserted& inserted, const std::vector<int64_t>& rows,
                      const ForwardPass& pass,
                      const std::shared_ptr<transformer::SharedGradient>& shared) const {
  transformer::LayerPass layers{.layout = {.queries = batch.sequences,
                                           .keys = batch.sequences,
                                           .heads = config_.n_head,
                                           .full_length = batch.full_length},
                                .dropout = {.attention = config_.attn_pdrop, .residual = config_.resid_pdrop},
                                .first_site = 1,  // 0 is the embedding's
                                .first_unit = unit(1)};
  const at::Tensor x = pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        transformer::Dropout dropout;
        if (pass.training) dropout = {config_.embd_pdrop, transformer::dropout_key(pass.dropout_seed, 0)};
        const Inserted values = in.empty() ? Inserted{} : Inserted{inserted.rows, in[0]};
        return Tensors{
            transformer::embed(batch.tokens, batch.positions, wte_, wpe_, dropout, shared, values)};
      },
      inserted.rows.defined() ? Tensors{inserted.values} : Tensors{})[0];
  return transformer::run_layers(layers_, x, layers, pass, parameters(), rows);
}

LossSum Gpt2::loss(const PackedBatch& batch, const ForwardPass& pass, const Inserted& inserted) const {
  batch.check("GPT-2");
  const auto shared = shared_gradient(wte_, pass);
  const at::Tensor x = body(batch, inserted, batch.target_rows, pass, shared);
  const Tensors out = pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        const LossSum loss = transformer::cross_entropy_head(
            in[0], batch.targets, final_norm_, wte_,
            {.scale = pass.scale, .compute = pass.compute, .shared = shared, .factor_is_one = true});
        return Tensors{loss.sum, loss.scaled};
      },
      {x});
  return {out[0], out[1]};
}

at::Tensor Gpt2::logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute,
                        const Inserted& inserted) const {
  const at::NoGradGuard no_grad;
  const at::Tensor host = rows.to(at::kCPU).contiguous();
  const std::vector<int64_t> wanted(host.const_data_ptr<int64_t>(),
                                    host.const_data_ptr<int64_t>() + host.numel());
  return logits_of(body(batch, inserted, wanted, {.compute = compute}, nullptr), compute);
}

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass. The output
// head is computed where there is a target, attention on the lower triangle.
double Gpt2::flops(const PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.n_embd), inner = static_cast<double>(config_.inner());
  double attention = 0;
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
    const auto length = static_cast<double>(batch.sequences.length(s));
    attention += 2 * length * length * width;
  }
  const double layer =
      2 * static_cast<double>(batch.sequences.rows()) * (4 * width * width + 2 * width * inner) + attention;
  const double head =
      2 * static_cast<double>(batch.target_rows.size()) * width * static_cast<double>(config_.vocab_size);
  return 3 * (static_cast<double>(config_.n_layer) * layer + head);
}

at::Tensor Gpt2::embed_with(const at::Tensor& tokens, const at::Tensor& positions,
                            const Inserted& inserted) const {
  return transformer::embed(tokens, positions, wte_, wpe_, {}, nullptr, inserted);
}

at::Tensor Gpt2::layer(int64_t index, const at::Tensor& x, const at::Tensor& /*positions*/,
                       at::ScalarType compute, const Attention& attend) const {
  const transformer::Layer& layer = layers_[static_cast<size_t>(index)];
  const at::Tensor qkv = transformer::norm_linear(x, layer.attention_norm, layer.qkv, compute);
  return transformer::after_attention(layer, 0, attend(qkv), x, {}, {.compute = compute});
}

at::Tensor Gpt2::logits_of(const at::Tensor& x, at::ScalarType compute) const {
  return transformer::head_logits(x, final_norm_, wte_, compute);
}

Gpt2Config read_gpt2_config(const std::string& path) {
  const ConfigFile file(path);
  file.type({"gpt2"});
  Gpt2Config config = hugging_face::read_fields(file, gpt2_fields(), "GPT2Config", Gpt2Config());
  for (const auto& [key, id] :
       {std::pair("bos_token_id", &config.bos_token_id), {"eos_token_id", &config.eos_token_id}})
    if (const json* value = file.find(key); value != nullptr && value->is_number_integer())
      *id = value->get<int64_t>();
  return file.checked(config);
}

Gpt2Config import_gpt2(const std::string& folder, Gpt2& model) {
  const Gpt2Config &ours = model.config(), theirs = read_gpt2_config(folder + "/config.json");
  hugging_face::Differences differences;
  differences.compare("task.model.n_layer", ours.n_layer, theirs.n_layer);
  differences.compare("task.model.n_head", ours.n_head, theirs.n_head);
  differences.compare("task.model.n_embd", ours.n_embd, theirs.n_embd);
  differences.compare("task.model.n_inner", ours.inner(), theirs.inner());
  differences.compare("task.model.n_positions", ours.n_positions, theirs.n_positions);
  differences.compare("task.model.layer_norm_epsilon", ours.layer_norm_epsilon, theirs.layer_norm_epsilon);
  differences.raise(folder);
  hugging_face::import_weights(folder, model.parameters(),
                               gpt2_names(model, theirs.vocab_size - ours.vocab_size));
  return theirs;
}

void export_gpt2(const std::string& folder, const Gpt2& model) {
  hugging_face::export_weights(folder, model.parameters(), gpt2_names(model));
  hugging_face::write_text(folder + "/config.json", format_gpt2_config(model.config()));
}

}  // namespace pipeline::language
