// Qwen2 and 2.5 (arXiv:2407.10671): Llama with biases of queries, keys and values. Qwen3 (arXiv:2505.09388):
// without them, with norms of the heads of queries and keys.
#include "language/llama.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Fields;

// Windows are off in all published models; transformers uses them for the layers from max_window_layers on.
Fields<Config> qwen_fields(Fields<Config> more) {
  using namespace hugging_face;
  more.insert(more.end(), {{"use_sliding_window", only({false})},
                           {"sliding_window", kWithoutEffect},
                           {"max_window_layers", kWithoutEffect},
                           {"layer_types", kReadElsewhere}});
  return llama_fields(std::move(more));
}

void require_full_attention(const ConfigFile& file, Config&) {
  const nlohmann::json* types = file.find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array()) file.fail("layer_types", "must be a list");
  for (const auto& type : *types)
    if (type != "full_attention") file.fail("layer_types", "only \"full_attention\" is computed here");
}

// transformers' defaults.
Config qwen_config(const char* name) {
  return {.architecture = name,
          .vocab_size = 151936,
          .max_position_embeddings = 32768,
          .hidden_size = 4096,
          .num_hidden_layers = 32,
          .num_attention_heads = 32,
          .num_key_value_heads = 32,
          .intermediate_size = 22016,
          .norm_eps = 1e-6,
          .tie_word_embeddings = false};
}

}  // namespace

const Architecture& qwen2() {
  static const Architecture kRow = [] {
    Architecture row{.name = "qwen2",
                     .config_class = "Qwen2Config",
                     .model_class = "Qwen2ForCausalLM",
                     .defaults = qwen_config("qwen2"),
                     .fields = qwen_fields({}),
                     .read = require_full_attention,
                     .written = {{"hidden_act", "silu"}, {"use_sliding_window", false}},
                     .has_output_bias = false};
    row.defaults.attention_bias = true;
    return row;
  }();
  return kRow;
}

const Architecture& qwen3() {
  static const Architecture kRow = [] {
    Architecture row{.name = "qwen3",
                     .config_class = "Qwen3Config",
                     .model_class = "Qwen3ForCausalLM",
                     .defaults = qwen_config("qwen3"),
                     .fields = qwen_fields({{"attention_bias", &Config::attention_bias}}),
                     .read = require_full_attention,
                     .written = {{"hidden_act", "silu"}, {"use_sliding_window", false}},
                     .has_query_norm = true};
    row.defaults.head_dim = 128;
    return row;
  }();
  return kRow;
}

}  // namespace pipeline::language
