// Llama (Touvron et al., arXiv:2302.13971; grouped-query attention since Llama 2): RMS norms, rotary
// positions, SwiGLU. Also SmolLM2, whose folders are Llama's.
#include "language/llama.hpp"

#include <string_view>
#include <utility>

namespace pipeline::language {

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

}  // namespace pipeline::language
