// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners"): layer norms, learnt
// positions, a GELU, biases, and the embedding as output head. Matrices are (in, out) in its folders.
#include "heads/label_folder.hpp"
#include "language/architecture.hpp"

namespace pipeline::language {

// The causal mask, kept as a buffer by older versions of transformers, whose names may lack the first part.
static std::string plain_name(const std::string& name) {
  constexpr const char *kPrefix = "transformer.", *kUntied = "lm_head.weight";
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return "";
  const bool is_whole = name == kUntied || name.starts_with(kPrefix) || heads::is_of_label_head(name);
  return is_whole ? name : kPrefix + name;
}

const Architecture& gpt2() {
  using namespace hugging_face;
  static const Architecture kRow{
      .name = "gpt2",
      .config_class = "GPT2Config",
      .model_class = "GPT2LMHeadModel",
      .defaults = {.architecture = "gpt2",
                   .vocab_size = 50257,
                   .max_position_embeddings = 1024,
                   .hidden_size = 768,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .embedding_dropout = 0.1,
                   .attention_dropout = 0.1,
                   .residual_dropout = 0.1,
                   .attention_bias = true,
                   .mlp_bias = true,
                   .bos_token_id = 50256,
                   .eos_token_id = 50256},
      .fields =
          {
              {"vocab_size", &Config::vocab_size},
              {"n_positions", &Config::max_position_embeddings},
              {"n_embd", &Config::hidden_size},
              {"n_layer", &Config::num_hidden_layers},
              {"n_head", &Config::num_attention_heads},
              {"n_inner", &Config::intermediate_size},
              {"layer_norm_epsilon", &Config::norm_eps},
              {"initializer_range", &Config::initializer_range},
              {"embd_pdrop", &Config::embedding_dropout},
              {"attn_pdrop", &Config::attention_dropout},
              {"resid_pdrop", &Config::residual_dropout},
              {"activation_function", only({"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})},  // one function
              {"scale_attn_weights", only({true})},
              {"scale_attn_by_inverse_layer_idx", only({false})},
              {"tie_word_embeddings", only({true})},
              {"reorder_and_upcast_attn", kWithoutEffect},  // equal but for its precision
              {"n_ctx", kWithoutEffect},                    // an old name of n_positions
              {"summary_type", kWithoutEffect},
              {"summary_use_proj", kWithoutEffect},
              {"summary_activation", kWithoutEffect},
              {"summary_proj_to_labels", kWithoutEffect},
              {"summary_first_dropout", kWithoutEffect},
          },
      .write =
          [](const Config& config, nlohmann::json& values) {
            values["n_ctx"] = config.max_position_embeddings;
            if (config.intermediate_size == 0) values["n_inner"] = nullptr;
          },
      .written = {{"activation_function", "gelu_new"},
                  {"scale_attn_weights", true},
                  {"tie_word_embeddings", true}},
      .names = {.embedding = "transformer.wte.weight",
                .positions = "transformer.wpe.weight",
                .layers = "transformer.h.",
                .attention_norm = "ln_1",
                .qkv = "attn.c_attn",
                .projection = "attn.c_proj",
                .mlp_norm = "ln_2",
                .up = "mlp.c_fc",
                .down = "mlp.c_proj",
                .last_norm = "transformer.ln_f",
                .of_words = "classifier",
                .is_transposed = false,
                .is_split = false,
                .plain = plain_name},
      .is_rotary = false,
      .is_rms = false,
      .gate = {},
      .is_residual_scaled = true};
  return kRow;
}

}  // namespace pipeline::language
