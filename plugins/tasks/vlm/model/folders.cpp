#include "plugins/tasks/vlm/model/folders.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "language/adapter.hpp"
#include "language/architecture.hpp"
#include "language/folder.hpp"
#include "vision/folder.hpp"

namespace pipeline::vlm {
namespace {

using hugging_face::ConfigFile;
using hugging_face::NameMap;
using hugging_face::Piece;
using nlohmann::json;

constexpr const char *kLlava = "llava", *kNext = "llava_next", *kIdefics = "idefics3", *kSmol = "smolvlm";
constexpr std::string_view kConnector = "model.connector.modality_projection.proj.weight";
constexpr std::string_view kVision = "vision.", kProjector = "projector.", kLanguage = "language.";

std::string after(const std::string& name, std::string_view prefix) { return name.substr(prefix.size()); }

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  return name.replace(name.find(from), from.size(), to);
}

// LLaVA's names since transformers 4.52, in which "model." has all but the head, as they were before; and
// those of Idefics3 as LLaVA's were.
std::string old_name(const std::string& name) {
  if (name.starts_with("model.vision_model.")) return "vision_tower." + after(name, "model.");
  if (name.starts_with("model.text_model."))
    return "language_model.model." + after(name, "model.text_model.");
  if (name == kConnector) return "multi_modal_projector.linear_1.weight";
  for (const std::string_view part : {"vision_tower.", "multi_modal_projector.", "image_newline"})
    if (name.starts_with("model." + std::string(part))) return after(name, "model.");
  if (name.starts_with("model.language_model."))
    return "language_model." + replaced(name, "language_model.", "");
  return name == "lm_head.weight" ? "language_model." + name : name;
}

// The other way.
std::string new_name(const std::string& name) {
  if (!name.starts_with("language_model.")) return "model." + name;
  const std::string own = after(name, "language_model.");
  return own.starts_with("model.") ? "model.language_model." + after(own, "model.") : own;
}

// Idefics3's of LLaVA's old ones.
std::string idefics_name(const std::string& name) {
  if (name.starts_with("vision_tower.")) return "model." + after(name, "vision_tower.");
  if (name.starts_with("language_model.model."))
    return "model.text_model." + after(name, "language_model.model.");
  if (name.starts_with("language_model.")) return after(name, "language_model.");
  return name == "multi_modal_projector.linear_1.weight" ? std::string(kConnector) : name;
}

std::vector<Piece> projector_pieces(const Parameter& parameter) {
  if (parameter.name == "projector.image_newline") return {{.name = "image_newline"}};
  return {{.name = "multi_modal_projector." + after(parameter.name, kProjector),
           .transposed = parameter.name.ends_with(".weight")}};
}

// A parameter's tensors by LLaVA's old names. more_tokens: see language::pieces().
std::vector<Piece> llava_pieces(const Parameter& parameter, const language::Config& language,
                                const vision::Config& vision, int64_t more_tokens) {
  if (parameter.name.starts_with(kVision))
    return vision::pieces(after(parameter.name, kVision), parameter, vision, "vision_tower.vision_model.");
  if (parameter.name.starts_with(kProjector)) return projector_pieces(parameter);
  std::vector<Piece> pieces = language::pieces(parameter, language, std::string(kLanguage), more_tokens);
  for (Piece& piece : pieces) piece.name = "language_model." + piece.name;
  return pieces;
}

// The whole model's tensors; to be written, an Idefics3's by its own names.
NameMap llava_map(const Vlm& model, int64_t more_tokens, bool by_own_names = false) {
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
                             : "vision_tower.vision_model." + *vision;
                return name;
              },
          .value =
              [&model](const ParameterRegistry::Declared& parameter) {
                return model.language().merged(parameter);
              }};
}

// transformers gives pictures to models whose positions are rotary alone; and scales embeddings of tokens
// alone, where we scale all.
bool takes_pictures(const language::Config& config) {
  const language::Architecture& row = language::architecture(config.architecture);
  return row.is_rotary && !row.is_embedding_scaled;
}

}  // namespace

namespace {

bool is_idefics(std::string_view type) { return type == kIdefics || type == kSmol; }

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

std::pair<const char*, int64_t> read_image_token(const std::string& folder) {
  const ConfigFile file(folder + "/config.json");
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

void import_vision(const std::string& folder, Vlm& model) {
  const vision::Config &ours = model.config().vision, theirs = read_vision_folder(folder);
  hugging_face::Differences differences;
  vision::compare(ours, theirs, 0, differences);
  differences.raise(folder);
  hugging_face::import_weights(
      folder, model.parameters(),
      {.pieces =
           [&](const Parameter& parameter) {
             return parameter.name.starts_with(kVision)
                        ? vision::pieces(after(parameter.name, kVision), parameter, ours, "")
                        : std::vector<Piece>();
           },
       .plain_name =
           [&](const std::string& given) {
             const std::string name = old_name(given);
             const auto plain = vision::plain_name(name, name.starts_with("vision_tower.") ||
                                                             name.starts_with("language_model.") ||
                                                             name.starts_with("multi_modal_projector."));
             return !plain || vision::is_unused(*plain, ours) ? std::string() : *plain;
           }});
}

int64_t import_language(const std::string& folder, Vlm& model) {
  language::FolderPart part;
  if (is_llava(folder))
    part = {"text_config", [](const std::string& name) {
              const std::string plain = old_name(name);
              return plain.starts_with("language_model.") ? after(plain, "language_model.") : std::string();
            }};
  return model.language().config().vocab_size -
         language::import_model(folder, model.language(), {}, part).vocab_size;
}

namespace {

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

// What of a LLaVA's own fields has to agree with its parts.
void check_llava_fields(const ConfigFile& file, const vision::Config& vision, const language::Config& text) {
  using hugging_face::only;
  // Without the class token, which SigLIP does not have.
  check_only(file, "vision_feature_select_strategy",
             {{vision.is_clip() ? "default" : "full"}, /*is_required=*/!vision.is_clip()});
  std::string type;
  file.read("model_type", type);
  if (file.find("image_aspect_ratio") != nullptr)
    check_only(file, "image_aspect_ratio", type == kNext ? only({"anyres"}) : only({"square", "pad"}));
  // transformers' default, whatever the tower; it uses the tower's own.
  check_only(file, "image_seq_length", only({vision.patches(), 576}));
  check_tied(file, text);
}

}  // namespace

namespace {

// Of "image_grid_pinpoints", heights and widths in pixels.
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

}  // namespace

namespace {

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

}  // namespace

VlmConfig read_llava_config(const std::string& folder) {
  const ConfigFile file(folder + "/config.json");
  if (const std::string type = file.type({kLlava, kNext, kIdefics, kSmol}); is_idefics(type))
    return read_idefics_config(file, type);
  const bool has_grids = file.type({kLlava, kNext}) == kNext;
  const language::Config text = language::read_config(file.part("text_config"));
  if (!takes_pictures(text))
    file.part("text_config").fail("model_type", "pictures of this model are not as transformers has them");
  VlmConfig config{.vision = vision::read_config(file), .language = text, .projector_layers = 2};
  config =
      hugging_face::read_fields(file, llava_fields(), has_grids ? "LlavaNextConfig" : "LlavaConfig", config);
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

namespace {

std::vector<std::string> names_of(const std::vector<images::Grid>& grids) {
  std::vector<std::string> names;
  for (const images::Grid& grid : grids) names.push_back(images::name_of(grid));
  return names;
}

}  // namespace

int64_t import_llava(const std::string& folder, Vlm& model) {
  const VlmConfig theirs = read_llava_config(folder);
  const language::Config& ours = model.config().language;
  const int64_t more = theirs.language.vocab_size - ours.vocab_size;
  hugging_face::Differences differences;
  vision::compare(model.config().vision, theirs.vision, theirs.vision.num_hidden_layers, differences);
  differences.compare("task.projector.layers", model.config().projector_layers, theirs.projector_layers);
  differences.compare("task.projector.scale_factor", model.config().scale_factor, theirs.scale_factor);
  differences.compare("task.projector.bias", model.config().projector_bias, theirs.projector_bias);
  differences.compare("task.vision.grids", names_of(model.config().grids), names_of(theirs.grids));
  language::compare(ours, theirs.language, differences);
  differences.raise(folder);
  hugging_face::import_weights(folder, model.parameters(), llava_map(model, more));
  return -more;
}

namespace {

// As Idefics3ForConditionalGeneration, or SmolVLMForConditionalGeneration.
void export_idefics(const std::string& folder, const Vlm& model, std::optional<int64_t> image_token,
                    bool is_smol) {
  const VlmConfig& config = model.config();
  if (config.projector_layers != 1 || config.projector_bias || !config.grids.empty())
    fail_with(PL_ERROR_UNSUPPORTED,
              "cannot be exported: an Idefics3 has a projector of one matrix, and no grids: "
              "task.projector.layers = "
              "1, task.projector.bias = false, task.vision.grids = []");
  const int64_t more_tokens = image_token ? 0 : 1;
  hugging_face::export_weights(folder, model.parameters(),
                               llava_map(model, more_tokens, /*by_own_names=*/true));
  json text = language::config_json(config.language), vision = vision::config_json(config.vision);
  text["vocab_size"] = config.language.vocab_size + more_tokens;
  if (is_smol) vision["model_type"] = "smolvlm_vision";
  const json values = {
      {"model_type", is_smol ? kSmol : kIdefics},
      {"architectures", {is_smol ? "SmolVLMForConditionalGeneration" : "Idefics3ForConditionalGeneration"}},
      {"scale_factor", config.scale_factor},
      {"image_token_id", image_token.value_or(config.language.vocab_size)},
      {"tie_word_embeddings", config.language.tie_word_embeddings},
      {"torch_dtype", "float32"},
      {"text_config", text},
      {"vision_config", vision}};
  hugging_face::write_text(folder + "/config.json", values.dump(2) + "\n");
}

}  // namespace

void export_llava(const std::string& folder, const Vlm& model, std::optional<int64_t> image_token,
                  bool is_smol) {
  const language::Config& language = model.config().language;
  if (!takes_pictures(language))
    fail_with(
        PL_ERROR_UNSUPPORTED,
        concat("a ", language.architecture,
               " with pictures cannot be exported: transformers gives pictures to "
               "models such as Llama alone (task.language.architecture); task.export = \"language\" exports "
               "it alone"));
  if (model.config().vision.has_last_norm()) return export_idefics(folder, model, image_token, is_smol);
  if (model.config().scale_factor != 1 || !model.config().projector_bias)
    fail_with(
        PL_ERROR_UNSUPPORTED,
        "cannot be exported: LlavaForConditionalGeneration has biases in its projector and a row for each "
        "patch (task.projector.bias, task.projector.scale_factor); for Idefics3ForConditionalGeneration, "
        "task.vision.kind must be \"idefics3\"");
  if (model.config().projector_layers != 2)
    fail_with(PL_ERROR_UNSUPPORTED,
              "a linear projector cannot be exported: LlavaForConditionalGeneration has two layers "
              "(task.projector.layers)");
  const vision::Config& vision = model.config().vision;
  const at::Tensor one = at::ones({vision.hidden_size}), zero = at::zeros({vision.hidden_size});
  const std::string norm = "vision_tower.vision_model.post_layernorm.";  // there, and not used
  const int64_t more_tokens = image_token ? 0 : 1;
  hugging_face::export_weights(folder, model.parameters(), llava_map(model, more_tokens),
                               {{norm + "weight", one}, {norm + "bias", zero}});
  json text = language::config_json(language);
  text["vocab_size"] = language.vocab_size + more_tokens;
  const std::vector<images::Grid>& grids = model.config().grids;
  json values = {{"model_type", grids.empty() ? kLlava : kNext},
                 {"architectures",
                  {grids.empty() ? "LlavaForConditionalGeneration" : "LlavaNextForConditionalGeneration"}},
                 {"projector_hidden_act", "gelu"},
                 {"multimodal_projector_bias", true},
                 {"vision_feature_layer", -1},
                 {"vision_feature_select_strategy", vision.is_clip() ? "default" : "full"},
                 {"image_token_index", image_token.value_or(language.vocab_size)},
                 {"image_seq_length", vision.patches()},
                 {"tie_word_embeddings", language.tie_word_embeddings},
                 {"torch_dtype", "float32"},
                 {"text_config", text},
                 {"vision_config", vision::config_json(vision)}};
  for (const images::Grid& grid : grids)
    values["image_grid_pinpoints"].push_back(
        {grid.rows * vision.image_size, grid.columns * vision.image_size});
  hugging_face::write_text(folder + "/config.json", values.dump(2) + "\n");
}

adapters::AdaptedModel adapted_llava(const language::Config& language, const vision::Config& vision) {
  adapters::AdaptedModel model = language::adapted_model(language);
  const bool is_idefics3 = vision.has_last_norm();
  const auto own_name = [is_idefics3](const std::string& name) {
    return is_idefics3 ? idefics_name(name) : new_name(name);
  };
  model.pieces = [language, vision, own_name](const Parameter& parameter) {
    std::vector<Piece> pieces = llava_pieces(parameter, language, vision, 0);
    for (Piece& piece : pieces) piece.name = own_name(piece.name);
    return pieces;
  };
  model.plain_name = [own_name](const std::string& given) { return own_name(old_name(given)); };
  model.task_type = "";
  model.ours = "model.", model.theirs = is_idefics3 ? "model.text_model." : "model.language_model.";
  if (!model.tied_to.empty()) model.tied_to = own_name("language_model." + model.tied_to);
  return model;
}

void export_language(const std::string& folder, const Vlm& model) {
  language::export_model(folder, model.language());
}

}  // namespace pipeline::vlm
