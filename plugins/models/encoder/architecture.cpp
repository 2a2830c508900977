#include "plugins/models/encoder/architecture.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace pipeline::encoder {

using hugging_face::Piece;

hugging_face::ModelField<Config> vocab_size_field() {
  return hugging_face::ModelField<Config>(
             "vocab_size", &Config::vocab_size,
             "rows of the embedding; 0, or too few: as many as the tokenizer has tokens")
      .range(1, kMostTokens)
      .set_from(0, kMostTokens)
      .not_compared();
}

namespace {

constexpr int64_t kMostTextLayers = 1 << 12;

// The text towers of CLIP and SigLIP have learnt positions, biases, a GELU.
hugging_face::ModelFields<Config> text_fields() {
  using Field = hugging_face::ModelField<Config>;
  return {
      vocab_size_field(),
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

bool Architecture::has(const char* field) const {
  return std::ranges::any_of(fields, [&](const auto& one) { return std::string_view(one.name) == field; });
}

int64_t Architecture::inner(const Config& config) const {
  for (const auto& field : fields)
    if (field.value != nullptr) return field.value(config);
  return config.intermediate_size;
}

double Architecture::stream(const Config& config) const {
  return divides_branches ? std::sqrt(static_cast<double>(config.num_hidden_layers) / 36.0) : 1;
}

void Architecture::check(const Config& config) const {
  hugging_face::check_fields(fields, config);
  const auto named = [&](int64_t Config::*member) {
    for (const auto& field : fields)
      if (field.member == hugging_face::ModelField<Config>::Member(member)) return field.name;
    return "";
  };
  const char* const heads = named(&Config::num_attention_heads);
  if (config.hidden_size % config.num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, heads, " = ", config.num_attention_heads, ": must divide ",
              named(&Config::hidden_size), " (", config.hidden_size, ")");
  if (names.positions == nullptr && config.head_width() % 2 != 0)
    fail_with(PL_ERROR_CONFIG, heads, " = ", config.num_attention_heads, ": gives heads of ",
              config.head_width(), " channels: rotary positions need an even number");
}

Config Architecture::read(const hugging_face::ConfigFile& file, Config start) const {
  return hugging_face::read_fields(file, hugging_face::fields_of(fields, others), config_class,
                                   std::move(start));
}

nlohmann::json Architecture::json(const Config& config) const {
  nlohmann::json values = written;
  values["model_type"] = type;
  for (const auto& other : others)
    if (const auto* only = std::get_if<hugging_face::Only>(&other.use); only && !only->values[0].is_null())
      values[other.key] = only->values[0];
  hugging_face::write_fields(config, hugging_face::fields_of(fields, {}), values);
  values["intermediate_size"] = inner(config);
  if (write != nullptr) write(config, values);
  return values;
}

void Architecture::compare(const std::string& table, const Config& ours, const Config& folders,
                           hugging_face::Differences& differences) const {
  hugging_face::compare_fields(fields, ours, folders, differences,
                               [&](const auto& field) { return table + field.name; });
}

std::vector<Piece> Architecture::pieces(const Parameter& parameter, const std::string& prefix,
                                        int64_t more_tokens) const {
  if (parameter.name.starts_with("lora.")) return {};
  const std::string plain = parameter.name.substr(prefix.size());
  const auto is = [&](const char* one) { return one != nullptr && plain == one; };
  const bool is_matrix = parameter.shape.size() == 2;
  if (is(names.words)) return {{.name = parameter.name, .more_rows = more_tokens}};
  if (is(names.positions) || is(names.types) ||
      (names.decoder != nullptr && plain.starts_with(names.decoder)))
    return {{.name = parameter.name}};
  const auto split = [&](const char* whole, const std::vector<const char*>& parts) {
    const std::string_view last = std::string_view(whole).substr(std::string_view(whole).rfind('.') + 1);
    if (parts.empty() || plain.find(concat(".", last, ".")) == std::string::npos) return std::vector<Piece>();
    std::vector<hugging_face::MatrixPart> columns;
    for (const char* part : parts)
      columns.push_back({part, parameter.shape.back() / static_cast<int64_t>(parts.size())});
    return hugging_face::side_by_side(parameter.name, last, columns, is_matrix);
  };
  for (std::vector<Piece> parts : {split(names.layer.qkv, names.qkv), split(names.layer.up, names.up)})
    if (!parts.empty()) return parts;
  return {{.name = parameter.name, .transposed = is_matrix}};
}

std::vector<adapters::LoraTarget> Architecture::lora_targets(const Config& config, const std::string& prefix,
                                                             uint32_t first_unit) const {
  using transformer::Layer;
  const int64_t width = config.hidden_size, columns = inner(config);
  const auto part = [](const char* whole, const char* last) {
    const std::string_view path = whole;
    return std::string(path.substr(0, path.rfind('.') + 1)) + last;
  };
  std::vector<adapters::LayerMatrix> matrices;
  for (size_t i = 0; i < names.qkv.size(); ++i)
    matrices.push_back({part(names.layer.qkv, names.qkv[i]), &Layer::qkv_lora,
                        static_cast<int64_t>(i) * width, width, width, i != 1});
  if (names.qkv.empty()) matrices.push_back({names.layer.qkv, &Layer::qkv_lora, 0, width, 3 * width, true});
  matrices.push_back({names.layer.projection, &Layer::projection_lora, 0, width, width});
  if (names.up.empty())
    matrices.push_back({names.layer.up, &Layer::up_lora, 0, width, (gate ? 2 : 1) * columns});
  for (size_t i = 0; i < names.up.size(); ++i)
    matrices.push_back({part(names.layer.up, names.up[i]), &Layer::up_lora, static_cast<int64_t>(i) * columns,
                        width, columns});
  matrices.push_back({names.layer.down, &Layer::down_lora, 0, columns, width});
  std::vector<adapters::LoraTarget> all;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    adapters::add_targets(all, concat(prefix, names.layers, i, "."), i,
                          first_unit + static_cast<uint32_t>(i + 1), matrices);
  return all;
}

const Architecture& text_tower(bool is_clip) {
  static const Architecture kClip = clip(), kSiglip = siglip();
  return is_clip ? kClip : kSiglip;
}

}  // namespace pipeline::encoder
