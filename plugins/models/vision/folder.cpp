#include "vision/folder.hpp"

#include <array>
#include <charconv>

#include "hugging_face/config_fields.hpp"

namespace pipeline::vision {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  return name.replace(name.find(from), from.size(), to);
}

// Of CLIPVisionConfig and SiglipVisionConfig.
const hugging_face::Fields<Config>& fields() {
  using namespace hugging_face;
  static const Fields<Config> kFields{
      {"image_size", &Config::image_size},
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

// Of CLIPConfig and SiglipConfig, of which the vision part alone is used.
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

Config read_tower(const ConfigFile& file) {
  Config config;
  const std::string type =
      file.type({"clip_vision_model", "siglip_vision_model", "idefics3_vision", "smolvlm_vision", "idefics3",
                 "smolvlm"});  // the last two in older files
  config.kind = type == "clip_vision_model" ? "clip" : type == "siglip_vision_model" ? "siglip" : "idefics3";
  if (!config.is_clip()) {  // transformers' defaults
    config.hidden_act = "gelu_pytorch_tanh";
    config.patch_size = 16;
    config.layer_norm_eps = 1e-6;
  }
  if (config.has_last_norm()) {
    config.hidden_size = 1152;
    config.patch_size = 32;
    config.num_attention_heads = 16;
  }
  config = hugging_face::read_fields(file, fields(),
                                     config.is_clip()         ? "CLIPVisionConfig"
                                     : config.has_last_norm() ? "Idefics3VisionConfig"
                                                              : "SiglipVisionConfig",
                                     config);
  return file.checked(config);
}

}  // namespace

Config read_config(const ConfigFile& file) {
  const std::string type =
      file.type({"clip", "clip_vision_model", "siglip", "siglip_vision_model", "llava", "llava_next",
                 "idefics3", "idefics3_vision", "smolvlm", "smolvlm_vision"});
  if (type.ends_with("_vision_model") || type.ends_with("_vision")) return read_tower(file);
  const ConfigFile part = file.part("vision_config");
  if (type.starts_with("llava") || type == "idefics3" || type == "smolvlm") return read_tower(part);
  hugging_face::read_fields(file, contrastive_fields(), type == "clip" ? "CLIPConfig" : "SiglipConfig",
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
  return {{"model_type", config.is_clip()         ? "clip_vision_model"
                         : config.has_last_norm() ? "idefics3_vision"
                                                  : "siglip_vision_model"},
          {"num_channels", 3},
          {"image_size", config.image_size},
          {"patch_size", config.patch_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_hidden_layers},
          {"num_attention_heads", config.num_attention_heads},
          {"intermediate_size", config.intermediate_size},
          {"layer_norm_eps", config.layer_norm_eps},
          {"hidden_act", config.hidden_act},
          {"vision_use_head", false}};
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
  both("layer_norm_eps", ours.layer_norm_eps, theirs.layer_norm_eps);
  both("hidden_act", ours.hidden_act, theirs.hidden_act);
  if (used > 0 || ours.num_hidden_layers > theirs.num_hidden_layers)
    both("num_hidden_layers", ours.num_hidden_layers, used > 0 ? used : theirs.num_hidden_layers);
}

std::vector<Piece> pieces(const std::string& plain, const Parameter& parameter, const Config& config,
                          const std::string& prefix) {
  const std::string name = prefix + plain;
  const int64_t width = config.hidden_size, patch = config.patch_size;
  if (name.find("self_attn.qkv") != std::string::npos) {
    std::vector<Piece> parts;
    for (int64_t i = 0; i < 3; ++i) {
      static constexpr std::array kParts{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
      parts.push_back({replaced(name, "self_attn.qkv", kParts[static_cast<size_t>(i)]), i * width, width,
                       parameter.shape.size() == 2});
    }
    return parts;
  }
  if (name.ends_with("patch_embedding.weight"))
    return {{.name = name, .transposed = true, .folded = {width, 3, patch, patch}}};
  const bool is_product =
      name.ends_with("out_proj.weight") || name.ends_with("fc1.weight") || name.ends_with("fc2.weight");
  return {{.name = name, .transposed = is_product}};
}

bool is_unused(const std::string& name, const Config& config) {
  const int64_t layers = config.num_hidden_layers;
  if (name.starts_with("post_layernorm.")) return !config.has_last_norm();
  for (const char* part : {"head.", "embeddings.position_ids"})
    if (name.starts_with(part)) return true;
  constexpr std::string_view kLayer = "encoder.layers.";
  if (!name.starts_with(kLayer)) return false;
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(&name[kLayer.size()], name.data() + name.size(), layer);
  return error == std::errc() && *end == '.' && layer >= layers;
}

std::optional<std::string> plain_name(const std::string& name, bool whole) {
  for (const std::string_view prefix :
       {"vision_tower.vision_model.", "vision_tower.", "model.vision_model.", "vision_model."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  if (whole || name.starts_with("text_model.") || name.starts_with("logit_") ||
      name.ends_with("_projection.weight"))
    return std::nullopt;
  return name;
}

}  // namespace pipeline::vision
