// OLMo 2 (arXiv:2501.00656): Llama with norms of what attention and the MLP give, in place of those of what
// they read, and of all queries and all keys.
#include "language/llama.hpp"

namespace pipeline::language {

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

}  // namespace pipeline::language
