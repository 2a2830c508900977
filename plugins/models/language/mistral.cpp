// Mistral 7B (arXiv:2310.06825): Llama, in whose first version a token sees the last 4,096 alone.
#include "language/llama.hpp"

namespace pipeline::language {

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
                                 .write =
                                     [](const Config& config, nlohmann::json& values) {
                                       if (config.sliding_window == 0) values["sliding_window"] = nullptr;
                                     },
                                 .written = {{"hidden_act", "silu"}}};
  return kRow;
}

}  // namespace pipeline::language
