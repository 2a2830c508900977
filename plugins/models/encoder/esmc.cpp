#include "plugins/models/encoder/esmc.hpp"

#include <ATen/core/Tensor.h>

#include "plugins/models/protein/label_folder.hpp"
#include "transformer/layer.hpp"

namespace pipeline::encoder {
namespace {

constexpr double kEpsilon = 1e-5;  // of all norms; transformers has no field for it

}  // namespace

// A layer adds what its branches give, divided by a constant d, to the residual stream x, and reads it
// through norms. Here layers see d x: nothing is divided, and norms with d^2 epsilon give the same. So
// ESM-2's layers compute ESM C, too.
Esmc::Esmc(const EsmcConfig& config, const adapters::LoraOptions& lora, const ParameterRegistry::Rule& rule)
    : Esm2(config.as_esm2(), lora, rule, config.branch_divisor()), config_(config) {
  const int64_t width = config_.hidden_dim;
  const double deviation = config_.initializer_range;
  const double of_stream = kEpsilon * config_.branch_divisor() * config_.branch_divisor();
  words_ = parameters_.add({.name = esmc::kWords, .shape = {esmc::kRows, width}, .decay = false},
                           normal(deviation));
  for (int64_t i = 0; i < config_.num_layers; ++i) layers_.push_back(add_layer(i, of_stream));
  last_norm_ = add_plain_norm("esmc.norm", 0, of_stream);
  if (config_.label) {
    label_head_.emplace(parameters_, *config_.label, width, deviation, "score");
  } else {
    head_dense_ = transformer::add_linear(parameters_, "lm_head.dense", width, width, 0, deviation);
    head_norm_ = transformer::add_norm(parameters_, "lm_head.layer_norm", width, 0, kEpsilon);
    const std::string decoder = esmc::kDecoder;
    head_weight_ = parameters_.add(
        {.name = decoder + ".weight", .shape = {esmc::kRows, width}, .forms = PL_FORM_BFLOAT16},
        normal(deviation));
    head_bias_ =
        parameters_.add({.name = decoder + ".bias", .shape = {esmc::kRows}, .decay = false}, constant(0));
  }
  adapters::add_lora(parameters_, lora_, esmc::adapted_model(config_).targets, layers_);
  start_from_adapter();
}

transformer::Norm Esmc::add_plain_norm(const std::string& name, uint32_t unit, double epsilon) {
  return {.weight = parameters_.add(
              {.name = name + ".weight", .shape = {config_.hidden_dim}, .decay = false, .unit = unit},
              constant(1)),
          .bias = {},
          .eps = epsilon,
          .has_mean = true};
}

transformer::Linear Esmc::add_matrix(const std::string& name, int64_t in, int64_t out, uint32_t unit) {
  return {transformer::add_matrix(parameters_, name, in, out, unit, config_.initializer_range), {}};
}

transformer::Layer Esmc::add_layer(int64_t number, double epsilon) {
  const std::string name = concat("esmc.layers.", number, ".");
  const auto unit = static_cast<uint32_t>(number + 1);
  const int64_t width = config_.hidden_dim, inner = config_.inner();
  transformer::Layer layer;
  layer.attention_norm = transformer::add_norm(parameters_, name + "input_layernorm", width, unit, epsilon);
  layer.qkv = add_matrix(name + "self_attn.qkv_proj", width, 3 * width, unit);
  layer.query_norm = add_plain_norm(name + "self_attn.q_norm", unit, kEpsilon);
  layer.key_norm = add_plain_norm(name + "self_attn.k_norm", unit, kEpsilon);
  layer.projection = add_matrix(name + "self_attn.o_proj", width, width, unit);
  layer.mlp_norm =
      transformer::add_norm(parameters_, name + "post_attention_layernorm", width, unit, epsilon);
  layer.is_gated = true;
  layer.up = add_matrix(name + "mlp.gate_up_proj", width, 2 * inner, unit);
  layer.down = add_matrix(name + "mlp.down_proj", inner, width, unit);
  return layer;
}

void Esmc::start_from_adapter() {
  if (!lora_.init_from.empty())
    adapters::start_from_adapter(lora_.init_from.string(), parameters_, esmc::adapted_model(config_));
}

void Esmc::import_folder(const std::filesystem::path& folder) {
  set_extras({.files = esmc::import_folder(folder.string(), config_, parameters_)});
  start_from_adapter();  // after what is the whole model's
}

void Esmc::export_folder(const std::filesystem::path& folder) const {
  if (lora_.exports_adapter()) {
    if (config_.label) protein::write_adapter_label(folder.string(), *config_.label, "Esmc");
    return adapters::export_adapter(folder.string(), parameters_, lora_, esmc::adapted_model(config_),
                                    lora_.base_model);
  }
  esmc::export_folder(
      folder.string(), config_, parameters_, extras().files,
      [&](const ParameterRegistry::Declared& parameter) { return adapters::merged(parameter, layers_); });
}

}  // namespace pipeline::encoder
