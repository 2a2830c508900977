#include "vision/folder.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "hugging_face/config_fields.hpp"

namespace pipeline::vision {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

// Of CLIPVisionConfig, SiglipVisionConfig and Siglip2VisionConfig.
const hugging_face::Fields<Config>& fields() {
  using namespace hugging_face;
  static const Fields<Config> kFields{
      {"image_size", &Config::image_size},
      {"num_patches", kReadElsewhere},  // NaFlex's
      {"patch_size", &Config::patch_size},
      {"hidden_size", &Config::hidden_size},
      {"num_hidden_layers", &Config::num_hidden_layers},
      {"num_attention_heads", &Config::num_attention_heads},
      {"intermediate_size", &Config::intermediate_size},
      {"layer_norm_eps", &Config::layer_norm_eps},
      {"initializer_range", &Config::initializer_range},
      {"hidden_act", &Config::hidden_act},
      {"num_channels", only({3})},
      {"attention_dropout", only({0.0})},
      {"initializer_factor", kWithoutEffect},
      {"projection_dim", kWithoutEffect},   // of CLIP's own comparison with texts
      {"vision_use_head", kWithoutEffect},  // SigLIP's pooling: only patches are used
      {"vocab_size", kWithoutEffect},       // LLaVA's writes it here, too
      {"tie_word_embeddings", kWithoutEffect},
      {"size", kWithoutEffect},             // Idefics3's: its image processor's count
      {"max_image_size", kWithoutEffect},   // the same
      {"use_base_siglip", kWithoutEffect},  // the same, of old
  };
  return kFields;
}

// Of Dinov2Config and Dinov2WithRegistersConfig.
const hugging_face::Fields<Config>& dino_fields() {
  using namespace hugging_face;
  static const Fields<Config> kFields{
      {"image_size", &Config::image_size},
      {"patch_size", &Config::patch_size},
      {"hidden_size", &Config::hidden_size},
      {"num_hidden_layers", &Config::num_hidden_layers},
      {"num_attention_heads", &Config::num_attention_heads},
      {"num_register_tokens", &Config::num_register_tokens},
      {"layer_norm_eps", &Config::layer_norm_eps},
      {"initializer_range", &Config::initializer_range},
      {"hidden_act", &Config::hidden_act},
      {"mlp_ratio", kReadElsewhere},
      {"num_channels", only({3})},
      {"hidden_dropout_prob", only({0.0})},
      {"attention_probs_dropout_prob", only({0.0})},
      {"drop_path_rate", only({0.0})},
      {"qkv_bias", only({true})},
      {"use_swiglu_ffn", only({false})},
      {"layerscale_value", kWithoutEffect},  // initial
      {"use_mask_token", kWithoutEffect},    // of pre-training
      {"apply_layernorm", kWithoutEffect},   // and what follows: of a backbone's feature maps
      {"reshape_hidden_states", kWithoutEffect},
      {"stage_names", kWithoutEffect},
      {"out_features", kWithoutEffect},
      {"out_indices", kWithoutEffect},
      {"_out_features", kWithoutEffect},
      {"_out_indices", kWithoutEffect},
  };
  return kFields;
}

// Of CLIPConfig, SiglipConfig and Siglip2Config, of which the vision part alone is used.
const hugging_face::Fields<Config>& contrastive_fields() {
  using namespace hugging_face;
  static const Fields<Config> kFields{
      {"vision_config", kReadElsewhere},      {"vision_config_dict", kReadElsewhere},
      {"text_config", kWithoutEffect},        {"text_config_dict", kWithoutEffect},
      {"projection_dim", kWithoutEffect},     {"logit_scale_init_value", kWithoutEffect},
      {"initializer_factor", kWithoutEffect}, {"tie_word_embeddings", kWithoutEffect},
  };
  return kFields;
}

// What transformers calls a vision encoder, and its defaults where they are not CLIP's.
struct Kind {
  const char *type, *kind, *class_name;
};
constexpr Kind kKinds[] = {
    {"clip_vision_model", "clip", "CLIPVisionConfig"},
    {"siglip_vision_model", "siglip", "SiglipVisionConfig"},
    {"siglip2_vision_model", "siglip2", "Siglip2VisionConfig"},
    {"dinov2", "dinov2", "Dinov2Config"},
    {"dinov2_with_registers", "dinov2", "Dinov2WithRegistersConfig"},
    {"idefics3_vision", "idefics3", "Idefics3VisionConfig"},
    {"smolvlm_vision", "idefics3", "Idefics3VisionConfig"},
    {"idefics3", "idefics3", "Idefics3VisionConfig"},  // in older files
    {"smolvlm", "idefics3", "Idefics3VisionConfig"},
};
constexpr const char* kWithRegisters = "dinov2_with_registers";

Config defaults_of(const Kind& kind) {
  Config config{.kind = kind.kind};
  if (!config.is_clip()) {
    config.hidden_act = config.is_dino() ? "gelu" : "gelu_pytorch_tanh";
    config.patch_size = config.is_dino() ? 14 : 16;
    config.layer_norm_eps = 1e-6;
  }
  if (config.has_last_norm()) {
    config.hidden_size = 1152;
    config.patch_size = 32;
    config.num_attention_heads = 16;
  }
  if (kind.type == std::string_view(kWithRegisters)) config.num_register_tokens = 4;
  return config;
}

// Positions of a square of patches, of which config.json has the number.
void read_flexible(const ConfigFile& file, Config& config) {
  int64_t patches = 256;
  file.read("num_patches", patches);
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  if (side < 1 || side * side != patches)
    file.fail("num_patches", "must be the square of a whole number, the patches along a side");
  config.image_size = side * config.patch_size;
}

void read_dino(const ConfigFile& file, const Kind& kind, Config& config) {
  int64_t ratio = 4;
  file.read("mlp_ratio", ratio);
  config.intermediate_size = config.hidden_size * ratio;
  if (kind.type == std::string_view(kWithRegisters) && config.num_register_tokens < 1)
    file.fail("num_register_tokens", "must be 1 or more: without them the model_type is dinov2");
}

Config read_tower(const ConfigFile& file) {
  std::vector<const char*> types;
  for (const Kind& kind : kKinds) types.push_back(kind.type);
  const std::string type = file.type(types);
  const Kind& kind =
      *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& one) { return type == one.type; });
  Config config = defaults_of(kind);
  config =
      hugging_face::read_fields(file, config.is_dino() ? dino_fields() : fields(), kind.class_name, config);
  if (config.is_flexible()) read_flexible(file, config);
  if (config.is_dino()) read_dino(file, kind, config);
  return file.checked(config);
}

}  // namespace

Config read_config(const ConfigFile& file) {
  std::vector<const char*> types{"clip", "siglip", "siglip2", "llava", "llava_next"};
  for (const Kind& kind : kKinds) types.push_back(kind.type);
  const std::string type = file.type(types);
  if (type.starts_with("dinov2") || type.ends_with("_vision_model") || type.ends_with("_vision"))
    return read_tower(file);
  const ConfigFile part = file.part("vision_config");
  if (type.starts_with("llava") || type == "idefics3" || type == "smolvlm") return read_tower(part);
  hugging_face::read_fields(file, contrastive_fields(),
                            type == "clip"     ? "CLIPConfig"
                            : type == "siglip" ? "SiglipConfig"
                                               : "Siglip2Config",
                            Config());
  // An old form of vision_config, which goes first in transformers.
  if (file.find("vision_config_dict") != nullptr) {
    const ConfigFile old = file.part("vision_config_dict");
    for (const std::string& key : old.keys())
      if (const json* there = part.find(key), *here = old.find(key);
          here != nullptr && (there == nullptr || *here != *there))
        old.fail(key, "differs from what vision_config says: take vision_config_dict out of the file");
  }
  return read_tower(part);
}

json config_json(const Config& config) {
  json values = {{"num_channels", 3},
                 {"patch_size", config.patch_size},
                 {"hidden_size", config.hidden_size},
                 {"num_hidden_layers", config.num_hidden_layers},
                 {"num_attention_heads", config.num_attention_heads},
                 {"layer_norm_eps", config.layer_norm_eps},
                 {"hidden_act", config.hidden_act}};
  if (config.is_flexible())
    values["num_patches"] = config.positions();
  else
    values["image_size"] = config.image_size;
  if (config.is_dino()) {
    const bool has_registers = config.num_register_tokens > 0;
    values["model_type"] = has_registers ? kWithRegisters : "dinov2";
    values["mlp_ratio"] = config.intermediate_size / config.hidden_size;
    if (has_registers) values["num_register_tokens"] = config.num_register_tokens;
    return values;
  }
  for (const Kind& kind : kKinds)
    if (config.kind == kind.kind) {
      values["model_type"] = kind.type;
      break;
    }
  values["intermediate_size"] = config.intermediate_size;
  values["vision_use_head"] = false;
  return values;
}

void compare(const Config& ours, const Config& theirs, int64_t used, hugging_face::Differences& differences) {
  const auto both = [&](const char* key, const auto& mine, const auto& other) {
    differences.compare(std::string("task.vision.") + key, mine, other);
  };
  both("kind", ours.kind, theirs.kind);
  both("image_size", ours.image_size, theirs.image_size);
  both("patch_size", ours.patch_size, theirs.patch_size);
  both("hidden_size", ours.hidden_size, theirs.hidden_size);
  both("num_attention_heads", ours.num_attention_heads, theirs.num_attention_heads);
  both("intermediate_size", ours.intermediate_size, theirs.intermediate_size);
  both("num_register_tokens", ours.num_register_tokens, theirs.num_register_tokens);
  both("layer_norm_eps", ours.layer_norm_eps, theirs.layer_norm_eps);
  both("hidden_act", ours.hidden_act, theirs.hidden_act);
  if (used > 0 || ours.num_hidden_layers > theirs.num_hidden_layers)
    both("num_hidden_layers", ours.num_hidden_layers, used > 0 ? used : theirs.num_hidden_layers);
}

}  // namespace pipeline::vision
