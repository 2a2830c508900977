// Gemma 2 (arXiv:2408.00118) and the text models of Gemma 3 (arXiv:2503.19786): norms before and after
// attention and MLP, GeGLU, scaled embeddings, layers with a window between others; caps of scores and logits
// in the former, norms of the heads of queries and keys in the latter.
#include <algorithm>

#include "language/architecture.hpp"
#include "language/config.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Fields;

Fields<Config> gemma_fields() {
  using namespace hugging_face;
  const Only gelu = only({"gelu_pytorch_tanh"});
  return llama_fields({{"hidden_activation", gelu},
                       {"attention_bias", &Config::attention_bias},
                       {"query_pre_attn_scalar", &Config::query_pre_attn_scalar},
                       {"sliding_window", &Config::sliding_window},
                       {"final_logit_softcapping", &Config::final_logit_softcapping},
                       {"layer_types", kReadElsewhere},
                       {"use_bidirectional_attention", only({false})},
                       {"sliding_window_size", kWithoutEffect},  // sliding_window, said twice
                       {"cache_implementation", kWithoutEffect}},
                      gelu);  // hidden_act: an older name of hidden_activation
}

void read_layers(const ConfigFile& file, Config& config) {
  const std::vector<std::string> types = read_layer_types(file, config);
  if (types.empty()) return;
  const auto first = std::ranges::find(types, kFullAttention);
  config.full_attention_every = first == types.end() ? 0 : first - types.begin() + 1;
  take_layer_types(file, types, config);
}

void write_layers_and_caps(const Config& config, nlohmann::json& values) {
  values["layer_types"] = layer_types(config);
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (values.contains(key) && values[key] == 0.0) values[key] = nullptr;
}

// Since transformers 5 one for each kind of layers; before, names of their own for the local ones' base.
void read_gemma3_rope(const ConfigFile& file, Config& config) {
  file.read("rope_local_base_freq", config.rope_local_theta);
  if (file.find("rope_scaling") != nullptr)
    read_rope_values(file.part("rope_scaling"), "Gemma3TextConfig", config.rope_scaling, config.rope_theta);
  if (file.find("rope_parameters") == nullptr) return;
  const ConfigFile both = file.part("rope_parameters");
  if (both.find(kFullAttention) == nullptr && both.find(kSlidingAttention) == nullptr)
    return read_rope_values(both, "Gemma3TextConfig", config.rope_scaling, config.rope_theta);
  RopeScaling local;
  read_rope_values(both.part(kFullAttention), "Gemma3TextConfig", config.rope_scaling, config.rope_theta);
  read_rope_values(both.part(kSlidingAttention), "Gemma3TextConfig", local, config.rope_local_theta);
  if (local.type != "default")
    both.part(kSlidingAttention).fail("rope_type", "only \"default\" is computed here");
}

Config gemma_config(const char* name) {
  return {.architecture = name,
          .vocab_size = 256000,
          .max_position_embeddings = 8192,
          .hidden_size = 2304,
          .num_hidden_layers = 26,
          .num_attention_heads = 8,
          .num_key_value_heads = 4,
          .head_dim = 256,
          .intermediate_size = 9216,
          .norm_eps = 1e-6,
          .sliding_window = 4096,
          .full_attention_every = 2,
          .query_pre_attn_scalar = 256,
          .attn_logit_softcapping = 50,
          .final_logit_softcapping = 30,
          .bos_token_id = 2,
          .eos_token_id = 1};
}

Architecture gemma(const char* name, const char* config_class, const char* model_class) {
  Architecture row{.name = name,
                   .config_class = config_class,
                   .model_class = model_class,
                   .defaults = gemma_config(name),
                   .fields = gemma_fields(),
                   .written = {{"hidden_activation", "gelu_pytorch_tanh"}}};
  row.names.mlp_norm = "pre_feedforward_layernorm";
  row.names.attention_end_norm = "post_attention_layernorm";
  row.names.mlp_end_norm = "post_feedforward_layernorm";
  row.takes_any_head = false;
  row.is_embedding_scaled = row.is_norm_above_one = true;
  row.gate = transformer::Gate::kGelu;
  return row;
}

}  // namespace

const Architecture& gemma2() {
  static const Architecture kRow = [] {
    Architecture row = gemma("gemma2", "Gemma2Config", "Gemma2ForCausalLM");
    row.fields.push_back({"attn_logit_softcapping", &Config::attn_logit_softcapping});
    row.read = read_layers;
    row.write = write_layers_and_caps;
    return row;
  }();
  return kRow;
}

const Architecture& gemma3() {
  static const Architecture kRow = [] {
    using namespace hugging_face;
    Architecture row = gemma("gemma3_text", "Gemma3TextConfig", "Gemma3ForCausalLM");
    row.label_classes = "Gemma3Text";
    row.defaults.vocab_size = 262208;
    row.defaults.max_position_embeddings = 131072;
    row.defaults.full_attention_every = 6;
    row.defaults.rope_theta = 1e6;
    row.defaults.rope_local_theta = 10000;
    row.defaults.attn_logit_softcapping = row.defaults.final_logit_softcapping = 0;
    row.fields.insert(row.fields.end(),
                      {{"attn_logit_softcapping", only({nullptr})},  // transformers has no use for it
                       {"rope_local_base_freq", &Config::rope_local_theta},
                       {"sliding_window_pattern", &Config::full_attention_every},
                       {"_sliding_window_pattern", &Config::full_attention_every}});
    row.has_query_norm = true;
    row.has_local_positions = true;
    row.read = [](const ConfigFile& file, Config& config) {
      read_gemma3_rope(file, config);
      read_layers(file, config);
    };
    row.write = [](const Config& config, nlohmann::json& values) {
      write_layers_and_caps(config, values);
      nlohmann::json all = rope_json(config.rope_scaling);
      if (all.is_null()) all = {{"rope_type", "default"}};
      all["rope_theta"] = config.rope_theta;
      const double local = config.rope_local_theta > 0 ? config.rope_local_theta : config.rope_theta;
      values["rope_parameters"] = {{kFullAttention, all},
                                   {kSlidingAttention, {{"rope_type", "default"}, {"rope_theta", local}}}};
      values["rope_local_base_freq"] = local;  // the older form, beside it
      values.erase("_sliding_window_pattern");
      if (config.full_attention_every == 0) values.erase("sliding_window_pattern");
    };
    return row;
  }();
  return kRow;
}

}  // namespace pipeline::language
