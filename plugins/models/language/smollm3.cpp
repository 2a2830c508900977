// SmolLM3 (Hugging Face, 2025): Llama, in which every fourth layer has no positions (NoPE, Yang et al.,
// arXiv:2501.18795).
#include <algorithm>

#include "language/layer_types.hpp"
#include "language/llama.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;

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
