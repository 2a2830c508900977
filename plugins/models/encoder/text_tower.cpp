// The texts of CLIP and SigLIP: learnt positions, biases, a GELU.
#include "plugins/models/encoder/architecture.hpp"

namespace pipeline::encoder {
namespace {

constexpr int64_t kMostTextLayers = 1 << 12, kMostTokens = 1 << 24;

hugging_face::ModelFields<Config> text_fields() {
  using Field = hugging_face::ModelField<Config>;
  return {
      Field("vocab_size", &Config::vocab_size,
            "rows of the embedding; 0, or too few: as many as the tokenizer has tokens")
          .range(1, kMostTokens)
          .set_from(0, kMostTokens)
          .not_compared(),
      Field("max_position_embeddings", &Config::max_position_embeddings,
            "longer texts are cut; SigLIP pads all to this length")
          .range(2, kMostWidth)
          .unit("tokens"),
      Field("hidden_size", &Config::hidden_size, "width").range(1, kMostWidth),
      Field("num_hidden_layers", &Config::num_hidden_layers, "layers").range(1, kMostTextLayers),
      Field("num_attention_heads", &Config::num_attention_heads, "attention heads").range(1, kMostWidth),
      Field("intermediate_size", &Config::intermediate_size, "width of the feed-forward layer")
          .range(1, kMostWidth),
      Field("hidden_act", &Config::hidden_act, "activation")
          .choices({"quick_gelu", "gelu", "gelu_pytorch_tanh"}),
      Field("layer_norm_eps", &Config::layer_norm_eps, "added to the variance").positive(),
      Field("initializer_range", &Config::initializer_range, "standard deviation of initial weights")
          .positive()
          .of_run(),
  };
}

Architecture clip() {
  using namespace hugging_face;
  return {.name = "clip",
          .type = "clip_text_model",
          .config_class = "CLIPTextConfig",
          .fields = text_fields(),
          .others = {{"attention_dropout", only({0.0})},
                     {"projection_size", kReadElsewhere},  // SigLIP's
                     {"projection_dim", kWithoutEffect},   // of the part by itself
                     {"initializer_factor", kWithoutEffect},
                     {"bos_token_id", kWithoutEffect},  // the tokenizer says
                     {"eos_token_id", kWithoutEffect},
                     {"pad_token_id", kWithoutEffect},
                     {"tie_word_embeddings", kWithoutEffect}},
          .names = {.words = "embeddings.token_embedding.weight",
                    .positions = "embeddings.position_embedding.weight",
                    .layers = "encoder.layers.",
                    .layer = {"layer_norm1", "self_attn.qkv", "self_attn.out_proj", "layer_norm2", "mlp.fc1",
                              "mlp.fc2"}},
          .is_causal = true};
}

Architecture siglip() {
  Architecture row = clip();
  row.name = "siglip";
  row.type = "siglip_text_model";
  row.config_class = "SiglipTextConfig";
  row.theirs = {.vocab_size = 32000,
                .max_position_embeddings = 64,
                .hidden_size = 768,
                .num_attention_heads = 12,
                .intermediate_size = 3072,
                .layer_norm_eps = 1e-6,
                .hidden_act = "gelu_pytorch_tanh"};
  row.is_causal = false;
  return row;
}

}  // namespace

const Architecture& text_tower(bool is_clip) {
  static const Architecture kClip = clip(), kSiglip = siglip();
  return is_clip ? kClip : kSiglip;
}

}  // namespace pipeline::encoder
