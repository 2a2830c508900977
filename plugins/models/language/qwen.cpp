// Qwen2 and 2.5 (arXiv:2407.10671): Llama with biases of queries, keys and values. Qwen3 (arXiv:2505.09388):
// without them, with norms of the heads of queries and keys.
#include "language/llama.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Fields;

// Windows are off in all published models; transformers uses them for the layers from max_window_layers on.
Fields<Config> qwen_fields() {
  using namespace hugging_face;
  return llama_fields({{"use_sliding_window", only({false})},
                       {"sliding_window", kWithoutEffect},
                       {"max_window_layers", kWithoutEffect},
                       {"layer_types", kReadElsewhere}});
}

void require_full_attention(const ConfigFile& file, Config&) {
  const nlohmann::json* types = file.find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array()) file.fail("layer_types", "must be a list");
  for (const auto& type : *types)
    if (type != "full_attention") file.fail("layer_types", "only \"full_attention\" is computed here");
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
                       .tie_word_embeddings = false},
          .fields = qwen_fields(),
          .read = require_full_attention,
          .written = {{"hidden_act", "silu"}, {"use_sliding_window", false}}};
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
