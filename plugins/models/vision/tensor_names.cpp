// What the tensors of vision encoders are called in their folders.
#include <array>
#include <charconv>

#include "vision/folder.hpp"

namespace pipeline::vision {
namespace {

using hugging_face::Piece;

bool replace(std::string& name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  if (at != std::string::npos) name.replace(at, from.size(), to);
  return at != std::string::npos;
}

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  replace(name, from, to);
  return name;
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
    std::vector<Piece> parts;
    for (int64_t i = 0; i < 3; ++i) {
      static constexpr std::array kParts{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
      parts.push_back({replaced(name, "self_attn.qkv", kParts[static_cast<size_t>(i)]), i * width, width,
                       parameter.shape.size() == 2});
    }
    return parts;
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
