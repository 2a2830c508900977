#include "vision/folder.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "hugging_face/config_fields.hpp"

namespace pipeline::vision {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

// The fields of CLIPVisionConfig, SiglipVisionConfig and Siglip2VisionConfig.
hugging_face::Fields<Config> fields() {
  using namespace hugging_face;
  return fields_of(model_fields(), {
                                       {"num_patches", kReadElsewhere},  // NaFlex's
                                       {"num_channels", only({3})},
                                       {"attention_dropout", only({0.0})},
                                       {"initializer_factor", kWithoutEffect},
                                       {"projection_dim", kWithoutEffect},  // of CLIP's comparison with texts
                                       {"vision_use_head", kWithoutEffect},  // only patches are used
                                       {"vocab_size", kWithoutEffect},       // LLaVA's writes it here, too
                                       {"tie_word_embeddings", kWithoutEffect},
                                       {"size", kWithoutEffect},  // Idefics3's: its image processor's count
                                       {"max_image_size", kWithoutEffect},   // Idefics3's, too
                                       {"use_base_siglip", kWithoutEffect},  // Idefics3's, of old
                                   });
}

// The fields of Dinov2Config and Dinov2WithRegistersConfig.
hugging_face::Fields<Config> dino_fields() {
  using namespace hugging_face;
  Fields<Config> all{
      {"num_register_tokens", &Config::num_register_tokens},
      {"mlp_ratio", kReadElsewhere},
      {"num_channels", only({3})},
      {"hidden_dropout_prob", only({0.0})},
      {"attention_probs_dropout_prob", only({0.0})},
      {"drop_path_rate", only({0.0})},
      {"qkv_bias", only({true})},
      {"use_swiglu_ffn", only({false})},
      {"layerscale_value", kWithoutEffect},  // initial
      {"use_mask_token", kWithoutEffect},    // of pre-training
      {"apply_layernorm", kWithoutEffect},   // and all below: of a backbone's feature maps
      {"reshape_hidden_states", kWithoutEffect},
      {"stage_names", kWithoutEffect},
      {"out_features", kWithoutEffect},
      {"out_indices", kWithoutEffect},
      {"_out_features", kWithoutEffect},
      {"_out_indices", kWithoutEffect},
  };
  all = fields_of(model_fields(), std::move(all));
  std::erase_if(all, [](const auto& field) { return std::string_view(field.key) == "intermediate_size"; });
  return all;
}

// The fields of CLIPConfig, SiglipConfig and Siglip2Config, of which the vision part alone is used.
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

using hugging_face::Piece;

bool replace(std::string& name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  if (at != std::string::npos) name.replace(at, from.size(), to);
  return at != std::string::npos;
}

// The names of Dinov2Model for those of CLIP's vision model.
std::string dino_name(std::string name) {
  static constexpr std::array<std::array<const char*, 2>, 10> kNames{
      {{"class_embedding", "cls_token"},
       {"patch_embedding.", "patch_embeddings.projection."},
       {"position_embedding.weight", "position_embeddings"},
       {"encoder.layers.", "encoder.layer."},
       {"layer_norm1", "norm1"},
       {"layer_norm2", "norm2"},
       {"self_attn.q_proj", "attention.attention.query"},
       {"self_attn.k_proj", "attention.attention.key"},
       {"self_attn.v_proj", "attention.attention.value"},
       {"self_attn.out_proj", "attention.output.dense"}}};
  for (const auto& [ours, theirs] : kNames) replace(name, ours, theirs);
  return name;
}

std::vector<Piece> clip_pieces(const std::string& name, const Parameter& parameter, const Config& config) {
  const int64_t width = config.hidden_size, patch = config.patch_size;
  if (name.find("self_attn.qkv") != std::string::npos) {
    return hugging_face::side_by_side(name, "qkv", {{"q_proj", width}, {"k_proj", width}, {"v_proj", width}},
                                      parameter.shape.size() == 2);
  }
  if (name.ends_with("patch_embedding.weight")) {
    if (config.is_flexible()) return {{.name = name, .transposed = true}};
    return {{.name = name, .transposed = true, .folded = {width, 3, patch, patch}}};
  }
  const bool is_product =
      name.ends_with("out_proj.weight") || name.ends_with("fc1.weight") || name.ends_with("fc2.weight");
  return {{.name = name, .transposed = is_product}};
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
  hugging_face::check_old_form(file, "vision_config");
  return read_tower(part);
}

json config_json(const Config& config) {
  json values = {{"num_channels", 3}};
  hugging_face::write_fields(config, hugging_face::fields_of(model_fields(), {}), values);
  values.erase("initializer_range");
  if (config.is_flexible()) {
    values.erase("image_size");
    values["num_patches"] = config.positions();
  }
  if (config.is_dino()) {
    const bool has_registers = config.num_register_tokens > 0;
    values.erase("intermediate_size");
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
  values["vision_use_head"] = false;
  return values;
}

void compare(const Config& ours, const Config& theirs, int64_t used, hugging_face::Differences& differences) {
  const std::string table = "task.vision.";
  differences.compare(table + "kind", ours.kind, theirs.kind);
  hugging_face::compare_fields(model_fields(), ours, theirs, differences,
                               [&](const auto& field) { return table + field.name; });
  differences.compare(table + "num_register_tokens", ours.num_register_tokens, theirs.num_register_tokens);
  const int64_t layers = used > 0 ? used : theirs.num_hidden_layers;
  if (used > 0 || ours.num_hidden_layers > layers)
    differences.compare(table + "num_hidden_layers", ours.num_hidden_layers, layers);
}

std::vector<Piece> pieces(const std::string& plain, const Parameter& parameter, const Config& config,
                          const std::string& prefix) {
  std::vector<Piece> parts = clip_pieces(prefix + plain, parameter, config);
  if (!config.is_dino()) return parts;
  for (Piece& part : parts) part.name = dino_name(part.name);
  const bool is_list = plain.ends_with("position_embedding.weight") || plain.ends_with("register_tokens");
  if (is_list || plain.ends_with("class_embedding"))
    parts[0].folded = {1, is_list ? parameter.shape[0] : 1, config.hidden_size};
  return parts;
}

bool is_unused(const std::string& name, const Config& config) {
  const int64_t layers = config.num_hidden_layers;
  if (name.starts_with("post_layernorm.")) return !config.has_last_norm();
  for (const char* part : {"head.", "embeddings.position_ids"})
    if (name.starts_with(part)) return true;
  if (config.is_dino() && (name.starts_with("layernorm.") || name == "embeddings.mask_token")) return true;
  const std::string_view before = config.is_dino() ? "encoder.layer." : "encoder.layers.";
  if (!name.starts_with(before)) return false;
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(&name[before.size()], name.data() + name.size(), layer);
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
