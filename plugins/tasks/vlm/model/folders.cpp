#include "plugins/tasks/vlm/model/folders.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "language/adapter.hpp"
#include "language/folder.hpp"
#include "plugins/tasks/vlm/model/model_type.hpp"
#include "plugins/tasks/vlm/model/tensor_names.hpp"
#include "vision/folder.hpp"

namespace pipeline::vlm {

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

// What a vision encoder has there, and is not used.
std::vector<std::pair<std::string, at::Tensor>> unused_of(const vision::Config& vision) {
  const int64_t width = vision.hidden_size;
  const std::string tower = tower_prefix(vision), norm = vision.is_dino() ? "layernorm." : "post_layernorm.";
  std::vector<std::pair<std::string, at::Tensor>> unused{{tower + norm + "weight", at::ones({width})},
                                                         {tower + norm + "bias", at::zeros({width})}};
  if (vision.is_dino()) unused.emplace_back(tower + "embeddings.mask_token", at::zeros({1, width}));
  return unused;
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
  const int64_t more_tokens = image_token ? 0 : 1;
  hugging_face::export_weights(folder, model.parameters(), llava_map(model, more_tokens), unused_of(vision));
  json text = language::config_json(language);
  text["vocab_size"] = language.vocab_size + more_tokens;
  const std::vector<images::Grid>& grids = model.config().grids;
  json values = {{"model_type", grids.empty() ? kLlava : kNext},
                 {"architectures",
                  {grids.empty() ? "LlavaForConditionalGeneration" : "LlavaNextForConditionalGeneration"}},
                 {"projector_hidden_act", "gelu"},
                 {"multimodal_projector_bias", true},
                 {"vision_feature_layer", -1},
                 {"vision_feature_select_strategy", vision.has_class() ? "default" : "full"},
                 {"image_token_index", image_token.value_or(language.vocab_size)},
                 {"image_seq_length", vision.rows()},
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

void export_language(const std::string& folder, const Vlm& model, const std::string& source) {
  language::export_model(folder, model.language(), source);
}

}  // namespace pipeline::vlm
