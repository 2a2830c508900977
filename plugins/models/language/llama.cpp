// Llama (Touvron et al., arXiv:2302.13971; grouped-query attention since Llama 2): RMS norms, rotary
// positions, SwiGLU. Also SmolLM2, whose folders are Llama's. And the families that differ from it in little.
#include "language/architecture.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "language/config.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;

void write_window(const Config& config, nlohmann::json& values) {
  if (config.sliding_window == 0) values["sliding_window"] = nullptr;
}

constexpr const char* kOriginal = "original_max_position_embeddings";

// With long positions the length that the model first learnt from stands beside them, and goes first.
void read_original(const ConfigFile& file, Config& config) {
  const std::string& type = config.rope_scaling.type;
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (file.find(key) != nullptr && type != "default" && type != "longrope")
      file.fail(key, concat("a Phi-3 has the type \"default\" or \"longrope\", and this is \"", type, "\""));
  if (type != "longrope") return;
  config.rope_scaling.original_max_position_embeddings = 4096;
  file.read(kOriginal, config.rope_scaling.original_max_position_embeddings);
}

void read_positions(const ConfigFile& file, Config& config) {
  int64_t interval = 4;
  file.read("no_rope_layer_interval", interval);
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  std::vector<int64_t>& turned = config.no_rope_layers;
  if (file.find("no_rope_layers") == nullptr) {
    if (interval < 1) file.fail("no_rope_layer_interval", "must be at least 1");
    for (size_t i = 0; i < layers; ++i)
      turned.push_back((static_cast<int64_t>(i) + 1) % interval == 0 ? 0 : 1);
  } else if (turned.size() < layers) {
    file.fail("no_rope_layers", concat("must have a number for each of num_hidden_layers (", layers, ")"));
  }
  turned.resize(layers);  // transformers passes over what is behind them
  if (std::ranges::find(turned, 0) == turned.end()) turned.clear();
  take_layer_types(file, read_layer_types(file, config), config);
}

}  // namespace

hugging_face::Fields<Config> llama_fields(hugging_face::Fields<Config> more, hugging_face::Only activation) {
  using namespace hugging_face;
  for (const char* name : {"vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers",
                           "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
                           "rope_theta", "initializer_range", "tie_word_embeddings"})
    each_field(model_fields(), [&](const auto& field, const auto member) {
      if (field.name == std::string_view(name)) more.push_back({field.key, member});
    });
  more.insert(more.end(), {{"rms_norm_eps", &Config::norm_eps},
                           {"attention_dropout", &Config::attention_dropout},
                           {"rope_scaling", kReadElsewhere},
                           {"rope_parameters", kReadElsewhere},  // with rope_theta, since transformers 5
                           {"hidden_act", std::move(activation)}});
  return more;
}

const Architecture& llama() {
  using namespace hugging_face;
  static const Architecture kRow{
      .name = "llama",
      .config_class = "LlamaConfig",
      .model_class = "LlamaForCausalLM",
      .defaults = {.vocab_size = 32000,
                   .max_position_embeddings = 2048,
                   .hidden_size = 4096,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .intermediate_size = 11008,
                   .norm_eps = 1e-6,
                   .tie_word_embeddings = false,
                   .bos_token_id = 1,
                   .eos_token_id = 2},
      .fields = llama_fields({
          {"attention_bias", &Config::attention_bias},
          {"mlp_bias", &Config::mlp_bias},
          {"partial_rotary_factor", only({1.0})},
          {"sliding_window", only({nullptr})},
          {"pretraining_tp", kWithoutEffect},        // in how many slices a product was computed
          {"is_llama_config", kWithoutEffect},       // what Idefics3's text_config has of its makers' own
          {"pixel_shuffle_factor", kWithoutEffect},  // of Idefics3's makers, too
          {"perceiver_config", kWithoutEffect},      // of Idefics3's makers, too
      }),
      .written = {{"hidden_act", "silu"}},
      .names = {.plain =
                    [](const std::string& name) {  // a buffer of older versions
                      return name.ends_with("rotary_emb.inv_freq") ? std::string() : name;
                    }},
      .takes_any_head = false};
  return kRow;
}

// Mistral 7B (arXiv:2310.06825): Llama, in whose first version a token sees the last 4,096 alone.
const Architecture& mistral() {
  using namespace hugging_face;
  static const Architecture kRow{.name = "mistral",
                                 .config_class = "MistralConfig",
                                 .model_class = "MistralForCausalLM",
                                 .defaults = {.architecture = "mistral",
                                              .vocab_size = 32000,
                                              .max_position_embeddings = 131072,
                                              .hidden_size = 4096,
                                              .num_hidden_layers = 32,
                                              .num_attention_heads = 32,
                                              .num_key_value_heads = 8,
                                              .intermediate_size = 14336,
                                              .norm_eps = 1e-6,
                                              .tie_word_embeddings = false,
                                              .sliding_window = 4096,
                                              .bos_token_id = 1,
                                              .eos_token_id = 2},
                                 .fields = llama_fields({{"sliding_window", &Config::sliding_window}}),
                                 .write = write_window,
                                 .written = {{"hidden_act", "silu"}}};
  return kRow;
}

// OLMo 2 (arXiv:2501.00656): Llama with norms of what attention and the MLP give, in place of those of what
// they read, and of all queries and all keys.
const Architecture& olmo2() {
  static const Architecture kRow{.name = "olmo2",
                                 .config_class = "Olmo2Config",
                                 .model_class = "Olmo2ForCausalLM",
                                 .defaults = {.architecture = "olmo2",
                                              .vocab_size = 50304,
                                              .max_position_embeddings = 2048,
                                              .hidden_size = 4096,
                                              .num_hidden_layers = 32,
                                              .num_attention_heads = 32,
                                              .intermediate_size = 11008,
                                              .tie_word_embeddings = false,
                                              .eos_token_id = 50279},
                                 .fields = llama_fields({{"attention_bias", &Config::attention_bias}}),
                                 .written = {{"hidden_act", "silu"}, {"pad_token_id", nullptr}},
                                 .names = {.attention_norm = nullptr,
                                           .mlp_norm = nullptr,
                                           .attention_end_norm = "post_attention_layernorm",
                                           .mlp_end_norm = "post_feedforward_layernorm"},
                                 .has_query_norm = true,
                                 .is_query_norm_whole = true};
  return kRow;
}

// Phi-3 (arXiv:2404.14219) and the Phi-4 that has its classes: Llama, in whose folders queries, keys and
// values are one matrix, and gate and up another.
const Architecture& phi3() {
  using namespace hugging_face;
  static const Architecture kRow{.name = "phi3",
                                 .config_class = "Phi3Config",
                                 .model_class = "Phi3ForCausalLM",
                                 .defaults = {.architecture = "phi3",
                                              .vocab_size = 32064,
                                              .max_position_embeddings = 4096,
                                              .hidden_size = 3072,
                                              .num_hidden_layers = 32,
                                              .num_attention_heads = 32,
                                              .intermediate_size = 8192,
                                              .tie_word_embeddings = false,
                                              .bos_token_id = 1,
                                              .eos_token_id = 32000},
                                 .fields = llama_fields({
                                     {"sliding_window", &Config::sliding_window},
                                     {"partial_rotary_factor", only({1.0})},
                                     {"resid_pdrop", only({0.0})},
                                     {"embd_pdrop", kWithoutEffect},  // transformers' class does not use it
                                     {kOriginal, kReadElsewhere},
                                 }),
                                 .read = read_original,
                                 .write =
                                     [](const Config& config, nlohmann::json& values) {
                                       write_window(config, values);
                                       const RopeScaling& rope = config.rope_scaling;
                                       values[kOriginal] = rope.type == "longrope"
                                                               ? rope.original_max_position_embeddings
                                                               : config.max_position_embeddings;
                                     },
                                 .written = {{"hidden_act", "silu"}, {"pad_token_id", nullptr}},
                                 .names = {.is_split = false}};
  return kRow;
}

// SmolLM3 (Hugging Face, 2025): Llama, in which every fourth layer has no positions (NoPE, Yang et al.,
// arXiv:2501.18795).
const Architecture& smollm3() {
  using namespace hugging_face;
  static const Architecture kRow{
      .name = "smollm3",
      .config_class = "SmolLM3Config",
      .model_class = "SmolLM3ForCausalLM",
      .defaults = {.architecture = "smollm3",
                   .vocab_size = 128256,
                   .max_position_embeddings = 32768,
                   .hidden_size = 2048,
                   .num_hidden_layers = 36,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 4,
                   .intermediate_size = 11008,
                   .norm_eps = 1e-6,
                   .rope_theta = 2e6,
                   .bos_token_id = 128000,
                   .eos_token_id = 128001},
      .fields = llama_fields({
          {"attention_bias", &Config::attention_bias},
          {"mlp_bias", &Config::mlp_bias},
          {"no_rope_layers", &Config::no_rope_layers},
          {"no_rope_layer_interval", kReadElsewhere},
          {"use_sliding_window", only({false})},
          {"sliding_window", kWithoutEffect},  // without use_sliding_window
          {"layer_types", kReadElsewhere},
      }),
      .read = read_positions,
      .write =
          [](const Config& config, nlohmann::json& values) {
            if (config.no_rope_layers.empty())
              values["no_rope_layers"] =
                  std::vector<int64_t>(static_cast<size_t>(config.num_hidden_layers), 1);
            values["layer_types"] = layer_types(config);
          },
      .written = {{"hidden_act", "silu"}, {"use_sliding_window", false}, {"pad_token_id", nullptr}}};
  return kRow;
}

}  // namespace pipeline::language
