// Qwen2 and 2.5 (arXiv:2407.10671): Llama with biases of queries, keys and values. Qwen3 (arXiv:2505.09388):
// without them, with norms of the heads of queries and keys.
#include <algorithm>

#include "language/architecture.hpp"
#include "language/config.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Fields;

Fields<Config> qwen_fields() {
  using namespace hugging_face;
  return llama_fields({{"use_sliding_window", kReadElsewhere},
                       {"sliding_window", &Config::sliding_window},
                       {"max_window_layers", &Config::max_window_layers},
                       {"layer_types", kReadElsewhere}});
}

// Reads the windows, which are off in published models.
void read_windows(const ConfigFile& file, Config& config) {
  bool is_used = false;
  file.read("use_sliding_window", is_used);
  if (!is_used) config.sliding_window = 0;
  const std::vector<std::string> types = read_layer_types(file, config);
  if (!types.empty() && config.sliding_window > 0)
    config.max_window_layers = std::ranges::find(types, kSlidingAttention) - types.begin();
  if (config.sliding_window == 0) config.max_window_layers = 0;
  take_layer_types(file, types, config);
}

void write_windows(const Config& config, nlohmann::json& values) {
  values["use_sliding_window"] = config.sliding_window > 0;
  if (config.sliding_window == 0) values["sliding_window"] = nullptr;
  values["layer_types"] = layer_types(config);
}

Architecture qwen(const char* name, const char* config_class, const char* model_class) {
  return {.name = name,
          .config_class = config_class,
          .model_class = model_class,
          .defaults = {.architecture = name,
                       .vocab_size = 151936,
                       .max_position_embeddings = 32768,
                       .hidden_size = 4096,
                       .num_hidden_layers = 32,
                       .num_attention_heads = 32,
                       .num_key_value_heads = 32,
                       .intermediate_size = 22016,
                       .norm_eps = 1e-6,
                       .tie_word_embeddings = false,
                       .sliding_window = 4096,
                       .max_window_layers = 28},
          .fields = qwen_fields(),
          .read = read_windows,
          .write = write_windows,
          .written = {{"hidden_act", "silu"}}};
}

}  // namespace

const Architecture& qwen2() {
  static const Architecture kRow = [] {
    Architecture row = qwen("qwen2", "Qwen2Config", "Qwen2ForCausalLM");
    row.defaults.attention_bias = true;
    row.has_output_bias = false;
    return row;
  }();
  return kRow;
}

const Architecture& qwen3() {
  static const Architecture kRow = [] {
    Architecture row = qwen("qwen3", "Qwen3Config", "Qwen3ForCausalLM");
    row.defaults.head_dim = 128;
    row.fields.push_back({"attention_bias", &Config::attention_bias});
    row.has_query_norm = true;
    return row;
  }();
  return kRow;
}

}  // namespace pipeline::language
