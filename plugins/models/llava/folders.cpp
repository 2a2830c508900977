#include "plugins/models/llava/folders.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "language/folder.hpp"
#include "vision/folder.hpp"

namespace pipeline::llava {

using hugging_face::Piece;
using nlohmann::json;

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

namespace {

// A tensor's name in a folder of the language model's own; empty: it is another part's.
std::string language_name(const std::string& name) {
  const std::string plain = old_name(name);
  return plain.starts_with("language_model.") ? after(plain, "language_model.") : std::string();
}

language::FolderPart part_of(const std::string& folder) {
  return is_llava(folder) ? language::FolderPart{"text_config", language_name} : language::FolderPart();
}

}  // namespace

std::string kept_language(const std::string& folder, const Vlm& model) {
  return language::kept_weights(folder, model.language(), part_of(folder));
}

int64_t import_language(const std::string& folder, Vlm& model) {
  const language::FolderPart part = part_of(folder);
  return model.language().config().vocab_size -
         language::import_model(folder, model.language(), part).vocab_size;
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

void check_idefics(const VlmConfig& config) {
  if (config.projector_layers != 1 || config.projector_bias || !config.grids.empty())
    fail_with(PL_ERROR_UNSUPPORTED,
              "cannot be exported: an Idefics3 has a projector of one matrix, and no grids: "
              "task.projector.layers = "
              "1, task.projector.bias = false, task.vision.grids = []");
}

void check_llava(const VlmConfig& config) {
  if (config.scale_factor != 1 || !config.projector_bias)
    fail_with(
        PL_ERROR_UNSUPPORTED,
        "cannot be exported: LlavaForConditionalGeneration has biases in its projector and a row for each "
        "patch (task.projector.bias, task.projector.scale_factor); for Idefics3ForConditionalGeneration, "
        "task.vision.kind must be \"idefics3\"");
  if (config.projector_layers != 2)
    fail_with(PL_ERROR_UNSUPPORTED,
              "a linear projector cannot be exported: LlavaForConditionalGeneration has two layers "
              "(task.projector.layers)");
}

// What config.json says beside its parts.
json whole_json(const VlmConfig& config, int64_t image_token) {
  const vision::Config& vision = config.vision;
  json values{{"tie_word_embeddings", config.language.tie_word_embeddings}};
  if (vision.has_last_norm()) {
    values["scale_factor"] = config.scale_factor;
    values["image_token_id"] = image_token;
    return values;
  }
  values.update({{"projector_hidden_act", "gelu"},
                 {"multimodal_projector_bias", true},
                 {"vision_feature_layer", -1},
                 {"vision_feature_select_strategy", vision.has_class() ? "default" : "full"},
                 {"image_token_index", image_token},
                 {"image_seq_length", vision.rows()}});
  for (const images::Grid& grid : config.grids)
    values["image_grid_pinpoints"].push_back(
        {grid.rows * vision.image_size, grid.columns * vision.image_size});
  return values;
}

// The config.json of a model that came from no such folder.
nlohmann::ordered_json new_config(const VlmConfig& config, int64_t image_token, bool is_smol) {
  const bool is_next = !config.grids.empty(), is_idefics = config.vision.has_last_norm();
  json values{{"model_type", is_idefics ? is_smol ? kSmol : kIdefics
                             : is_next  ? kNext
                                        : kLlava},
              {"architectures",
               {is_idefics ? is_smol ? "SmolVLMForConditionalGeneration" : "Idefics3ForConditionalGeneration"
                : is_next  ? "LlavaNextForConditionalGeneration"
                           : "LlavaForConditionalGeneration"}},
              {"torch_dtype", "float32"},
              {"text_config", language::config_json(config.language)},
              {"vision_config", vision::config_json(config.vision)}};
  if (is_idefics && is_smol) values["vision_config"]["model_type"] = "smolvlm_vision";
  values.update(whole_json(config, image_token));
  return values;
}

// The config.json of a model that came with `values`.
nlohmann::ordered_json kept_config(const VlmConfig& config, int64_t image_token,
                                   nlohmann::ordered_json values, bool has_unused_layers) {
  constexpr const char *kText = "text_config", *kTower = "vision_config", *kWords = "vocab_size";
  const auto file = hugging_face::ConfigFile::of("config.json", values.dump());
  const VlmConfig theirs = read_llava_config(file);
  const json ours = whole_json(config, image_token);
  hugging_face::take_changes(values, whole_json(theirs, read_image_token(file).second), ours);
  values[kText] = language::kept_config(config.language, values[kText]);
  hugging_face::take_changes(values[kTower], vision::config_json(theirs.vision),
                             vision::config_json(config.vision));
  if (values.contains(kWords) && theirs.language.vocab_size != config.language.vocab_size)
    values[kWords] = config.language.vocab_size;
  if (has_unused_layers || config.vision.has_last_norm()) return values;
  values["vision_feature_layer"] = ours["vision_feature_layer"];
  values[kTower]["num_hidden_layers"] = config.vision.num_hidden_layers;
  return values;
}

// The tensors that a vision encoder has there and that are not used.
std::vector<std::pair<std::string, at::Tensor>> unused_of(const vision::Config& vision) {
  if (vision.has_last_norm()) return {};
  const int64_t width = vision.hidden_size;
  const std::string tower = tower_prefix(vision), norm = vision.is_dino() ? "layernorm." : "post_layernorm.";
  std::vector<std::pair<std::string, at::Tensor>> unused{{tower + norm + "weight", at::ones({width})},
                                                         {tower + norm + "bias", at::zeros({width})}};
  if (vision.is_dino()) unused.emplace_back(tower + "embeddings.mask_token", at::zeros({1, width}));
  return unused;
}

}  // namespace

std::string kept_llava(const std::string& folder, const Vlm& model) {
  return hugging_face::kept_weights(folder, model.parameters(), llava_map(model, 0));
}

hugging_face::Came came_as_llava(const VlmConfig& config, const hugging_face::FolderTexts& texts) {
  if (config.vision.has_last_norm()) return hugging_face::came_from(texts, {kIdefics, kSmol});
  return hugging_face::came_from(texts, {config.grids.empty() ? kLlava : kNext});
}

std::vector<std::string> export_llava(const std::string& folder, const Vlm& model,
                                      std::optional<int64_t> image_token, bool is_smol,
                                      const hugging_face::FolderTexts& texts) {
  VlmConfig config = model.config();
  if (!takes_pictures(config.language))
    fail_with(
        PL_ERROR_UNSUPPORTED,
        concat("a ", config.language.architecture,
               " with pictures cannot be exported: transformers gives pictures to "
               "models such as Llama alone (task.language.architecture); task.export = \"language\" exports "
               "it alone"));
  config.vision.has_last_norm() ? check_idefics(config) : check_llava(config);
  const hugging_face::Came came = came_as_llava(config, texts);
  if (!image_token && !came.config.is_null() && config.language.written_tokens > 0) {
    // The token for a picture is one of the rows that no token of text has.
    const auto file = hugging_face::ConfigFile::of("config.json", came.config.dump());
    const int64_t theirs = read_image_token(file).second;
    if (theirs >= config.language.written_tokens && theirs < config.language.vocab_size) image_token = theirs;
  }
  const int64_t token = image_token.value_or(config.language.vocab_size), more_tokens = image_token ? 0 : 1;
  config.language.vocab_size += more_tokens;
  const hugging_face::NameMap map = llava_map(model, more_tokens, /*by_own_names=*/true);
  const hugging_face::ExportForm form = hugging_face::export_form(came.texts, model.parameters(), map);
  hugging_face::export_weights(folder, model.parameters(), map, unused_of(config.vision), form);
  hugging_face::write_config(folder,
                             came.config.is_null()
                                 ? new_config(config, token, is_smol)
                                 : kept_config(config, token, came.config, form.is_complete()),
                             form);
  return hugging_face::notes_of(form);
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

hugging_face::FolderTexts language_part(hugging_face::FolderTexts texts) {
  constexpr const char *kConfig = "config.json", *kPart = "text_config";
  nlohmann::ordered_json whole = hugging_face::came_from(texts, {kLlava, kNext, kIdefics, kSmol}).config;
  if (whole.is_null() || !whole.contains(kPart) || !whole[kPart].is_object()) return texts;
  nlohmann::ordered_json part = whole[kPart];
  if (!part.contains("dtype") && !part.contains("torch_dtype"))
    for (const char* key : {"dtype", "torch_dtype"})
      if (whole.contains(key)) part[key] = whole[key];
  texts[kConfig] = part.dump(2) + "\n";
  if (const auto kept = texts.find(hugging_face::kWeightsText); kept != texts.end())
    kept->second = hugging_face::kept_of_part(kept->second, language_name);
  return texts;
}

std::vector<std::string> export_language(const std::string& folder, const Vlm& model,
                                         const hugging_face::FolderTexts& came) {
  return language::export_model(folder, model.language(), language_part(came));
}

}  // namespace pipeline::llava
