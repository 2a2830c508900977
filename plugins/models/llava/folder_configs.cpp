// What the config.json of folders says of a model and its parts.

#include <vector>

#include "hugging_face/config_fields.hpp"
#include "language/architecture.hpp"
#include "language/folder.hpp"
#include "plugins/models/llava/folders.hpp"
#include "vision/folder.hpp"

namespace pipeline::llava {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

const hugging_face::Fields<VlmConfig>& llava_fields() {
  using namespace hugging_face;
  static const Fields<VlmConfig> kFields{
      {"vision_config", kReadElsewhere},
      {"text_config", kReadElsewhere},
      {"vision_feature_layer", kReadElsewhere},
      {"vision_feature_select_strategy", kReadElsewhere},
      {"image_seq_length", kReadElsewhere},
      {"image_grid_pinpoints", kReadElsewhere},
      {"image_aspect_ratio", kReadElsewhere},         // LLaVA's own
      {"use_image_newline_parameter", only({true})},  // old
      {"image_token_index", kReadElsewhere},
      {"tie_word_embeddings", kReadElsewhere},
      {"projector_hidden_act", only({"gelu"})},
      {"multimodal_projector_bias", only({true})},
      {"vocab_size", kWithoutEffect},    // old: text_config's counts
      {"ignore_index", kWithoutEffect},  // old: which targets have no loss
  };
  return kFields;
}

void check_tied(const ConfigFile& file, const language::Config& text) {
  bool tied = text.tie_word_embeddings;
  file.read("tie_word_embeddings", tied);
  if (tied != text.tie_word_embeddings)
    file.fail("tie_word_embeddings",
              concat("text_config says ", text.tie_word_embeddings ? "true" : "false", ": both must agree"));
}

// Checks that a LLaVA's own fields agree with its parts.
void check_llava_fields(const ConfigFile& file, const vision::Config& vision, const language::Config& text) {
  using hugging_face::only;
  // Features go without the class token, which SigLIP does not have.
  check_only(file, "vision_feature_select_strategy",
             {{vision.has_class() ? "default" : "full"}, /*is_required=*/!vision.has_class()});
  std::string type;
  file.read("model_type", type);
  if (file.find("image_aspect_ratio") != nullptr)
    check_only(file, "image_aspect_ratio", type == kNext ? only({"anyres"}) : only({"square", "pad"}));
  // transformers' default, whatever the tower; it uses the tower's own.
  if (!vision.is_dino() && !vision.is_flexible())  // for the others the image processor says it
    check_only(file, "image_seq_length", only({vision.patches(), 576}));
  check_tied(file, text);
}

// The grids of "image_grid_pinpoints", heights and widths in pixels.
std::vector<images::Grid> read_grids(const ConfigFile& file, int64_t side) {
  constexpr const char* kKey = "image_grid_pinpoints";
  const json usual = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};  // transformers' default
  const json* const found = file.find(kKey);
  std::vector<images::Grid> grids;
  const std::string problem = concat("must be a list of [height, width], multiples of the ", side,
                                     " pixels of image_size in vision_config");
  const json& all = found == nullptr ? usual : *found;
  for (const json& size : all.is_array() ? all : json::array({0})) {
    const bool is_size =
        size.is_array() && size.size() == 2 && size[0].is_number_unsigned() && size[1].is_number_unsigned();
    const int64_t height = is_size ? size[0].get<int64_t>() : 0, width = is_size ? size[1].get<int64_t>() : 0;
    if (height < 1 || width < 1 || height % side != 0 || width % side != 0)
      found == nullptr ? file.fail_missing(kKey, problem) : file.fail(kKey, problem);
    grids.push_back({height / side, width / side});
  }
  if (grids.empty()) file.fail(kKey, problem);
  return grids;
}

const hugging_face::Fields<VlmConfig>& idefics_fields() {
  using namespace hugging_face;
  static const Fields<VlmConfig> kFields{
      {"vision_config", kReadElsewhere},
      {"text_config", kReadElsewhere},
      {"tie_word_embeddings", kReadElsewhere},
      {"image_token_id", kReadElsewhere},
      {"scale_factor", &VlmConfig::scale_factor},
      {"vocab_size", kWithoutEffect},  // old: text_config's counts
      {"image_seq_len", kWithoutEffect},
  };
  return kFields;
}

VlmConfig read_idefics_config(const ConfigFile& file, const std::string& type) {
  const language::Config text = language::read_config(file.part("text_config"));
  if (!takes_pictures(text))
    file.part("text_config").fail("model_type", "pictures of this model are not as transformers has them");
  VlmConfig config{.vision = vision::read_config(file),
                   .language = text,
                   .projector_layers = 1,
                   .scale_factor = 2,
                   .projector_bias = false};
  config = hugging_face::read_fields(file, idefics_fields(),
                                     type == kSmol ? "SmolVLMConfig" : "Idefics3Config", config);
  check_tied(file, text);
  return file.checked(config);
}

using hugging_face::Piece;

constexpr std::string_view kOfLanguage = "language_model.";
constexpr std::string_view kConnector = "model.connector.modality_projection.proj.weight";

std::vector<Piece> projector_pieces(const Parameter& parameter) {
  if (parameter.name == "projector.image_newline") return {{.name = "image_newline"}};
  return {{.name = "multi_modal_projector." + after(parameter.name, kProjector),
           .transposed = parameter.name.ends_with(".weight")}};
}

}  // namespace

bool is_llava(const std::string& folder) {
  std::string type;
  ConfigFile(folder + "/config.json").read("model_type", type);
  return type == kLlava || type == kNext || is_idefics(type);
}

vision::Config read_vision_folder(const std::string& folder) {
  return vision::read_config(ConfigFile(folder + "/config.json"));
}

language::Config read_language_folder(const std::string& folder) {
  const ConfigFile file(folder + "/config.json");
  return language::read_config(is_llava(folder) ? file.part("text_config") : file);
}

std::pair<const char*, int64_t> read_image_token(const ConfigFile& file) {
  std::string type;
  file.read("model_type", type);
  int64_t token = is_idefics(type) ? 128257 : 32000;  // transformers' defaults
  const char* const key = is_idefics(type) ? "image_token_id" : "image_token_index";
  file.read(key, token);
  return {key, token};
}

bool pads_pictures(const std::string& folder) {
  std::string ratio;
  ConfigFile(folder + "/config.json").read("image_aspect_ratio", ratio);
  return ratio == "pad";
}

VlmConfig read_llava_config(const std::string& folder) {
  return read_llava_config(ConfigFile(folder + "/config.json"));
}

VlmConfig read_llava_config(const ConfigFile& file) {
  if (const std::string type = file.type({kLlava, kNext, kIdefics, kSmol}); is_idefics(type))
    return read_idefics_config(file, type);
  const bool has_grids = file.type({kLlava, kNext}) == kNext;
  const language::Config text = language::read_config(file.part("text_config"));
  if (!takes_pictures(text))
    file.part("text_config").fail("model_type", "pictures of this model are not as transformers has them");
  VlmConfig config{.vision = vision::read_config(file), .language = text, .projector_layers = 2};
  config =
      hugging_face::read_fields(file, llava_fields(), has_grids ? "LlavaNextConfig" : "LlavaConfig", config);
  if (has_grids && (config.vision.is_flexible() || config.vision.num_register_tokens > 0))
    file.part("vision_config")
        .fail("model_type", "its pictures cannot be cut in the squares of a llava_next");
  if (has_grids) config.grids = read_grids(file, config.vision.image_size);
  check_llava_fields(file, config.vision, text);
  int64_t layer = -2;
  file.read("vision_feature_layer", layer);
  int64_t& layers = config.vision.num_hidden_layers;
  const int64_t used = layer < 0 ? layers + 1 + layer : layer;
  if (used < 1 || used > layers)
    file.fail("vision_feature_layer", concat("must be the output of one of the ", layers, " layers"));
  layers = used;
  return config;
}

std::string tower_prefix(const vision::Config& vision) {
  return vision.is_dino() ? "vision_tower." : "vision_tower.vision_model.";
}

std::string old_name(const std::string& name) {
  if (name.starts_with("model.vision_model.")) return "vision_tower." + after(name, "model.");
  if (name.starts_with("model.text_model."))
    return "language_model.model." + after(name, "model.text_model.");
  if (name == kConnector) return "multi_modal_projector.linear_1.weight";
  for (const std::string_view part : {"vision_tower.", "multi_modal_projector.", "image_newline"})
    if (name.starts_with("model." + std::string(part))) return after(name, "model.");
  if (name.starts_with("model.language_model."))
    return "language_model.model." + after(name, "model.language_model.");
  return name == "lm_head.weight" ? "language_model." + name : name;
}

std::string new_name(const std::string& name) {
  if (!name.starts_with("language_model.")) return "model." + name;
  const std::string own = after(name, "language_model.");
  return own.starts_with("model.") ? "model.language_model." + after(own, "model.") : own;
}

std::string idefics_name(const std::string& name) {
  if (name.starts_with("vision_tower.")) return "model." + after(name, "vision_tower.");
  if (name.starts_with("language_model.model."))
    return "model.text_model." + after(name, "language_model.model.");
  if (name.starts_with("language_model.")) return after(name, "language_model.");
  return name == "multi_modal_projector.linear_1.weight" ? std::string(kConnector) : name;
}

std::vector<Piece> llava_pieces(const Parameter& parameter, const language::Config& language,
                                const vision::Config& vision, int64_t more_tokens) {
  if (parameter.name.starts_with(kVision))
    return vision::pieces(after(parameter.name, kVision), parameter, vision, tower_prefix(vision));
  if (parameter.name.starts_with(kProjector)) return projector_pieces(parameter);
  std::vector<Piece> pieces = language::pieces(parameter, language, std::string(kLanguage), more_tokens);
  for (Piece& piece : pieces) piece.name = "language_model." + piece.name;
  return pieces;
}

hugging_face::NameMap llava_map(const Vlm& model, int64_t more_tokens, bool by_own_names) {
  const bool is_tied = model.config().language.tie_word_embeddings;
  const std::string embedding = model.language().architecture().names.embedding;
  return {.pieces =
              [&model, more_tokens, by_own_names](const Parameter& parameter) {
                const VlmConfig& config = model.config();
                auto pieces = llava_pieces(parameter, config.language, config.vision, more_tokens);
                if (by_own_names && config.vision.has_last_norm())
                  for (Piece& piece : pieces) piece.name = idefics_name(piece.name);
                return pieces;
              },
          .plain_name =
              [&model](const std::string& given) {
                const std::string name = old_name(given);
                if (const auto vision = vision::plain_name(name, true))
                  return vision::is_unused(*vision, model.config().vision)
                             ? std::string()
                             : tower_prefix(model.config().vision) + *vision;
                const auto plain_name = model.language().architecture().names.plain;
                if (plain_name == nullptr || !name.starts_with(kOfLanguage)) return name;
                const std::string plain = plain_name(after(name, kOfLanguage));
                return plain.empty() ? plain : concat(kOfLanguage, plain);
              },
          .value =
              [&model](const ParameterRegistry::Declared& parameter) {
                return model.language().merged(parameter);
              },
          .head = is_tied ? concat(kOfLanguage, language::kHead) : "",
          .tied_to = is_tied ? concat(kOfLanguage, embedding) : ""};
}

}  // namespace pipeline::llava
