#include "plugins/models/two_towers/folder.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "hugging_face/config_fields.hpp"
#include "hugging_face/export_form.hpp"
#include "hugging_face/weights.hpp"
#include "vision/folder.hpp"

namespace pipeline::two_towers {
namespace {

using hugging_face::after;
using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

constexpr const char *kVision = "vision_model.", *kText = "text_model.";

// The fields of CLIPConfig and SiglipConfig.
const hugging_face::Fields<TwoTowersConfig>& whole_fields() {
  using namespace hugging_face;
  static const Fields<TwoTowersConfig> kFields{
      {"vision_config", kReadElsewhere},
      {"vision_config_dict", kReadElsewhere},
      {"text_config", kReadElsewhere},
      {"text_config_dict", kReadElsewhere},
      {"projection_dim", &TwoTowersConfig::projection_dim},
      {"logit_scale_init_value", &TwoTowersConfig::logit_scale},
      {"initializer_factor", kWithoutEffect},
      {"tie_word_embeddings", kWithoutEffect},
  };
  return kFields;
}

std::vector<Piece> pieces(const Parameter& parameter, const TwoTowersConfig& config, int64_t more_tokens) {
  const std::string& name = parameter.name;
  constexpr const char* kIn = "vision_model.head.attention.in_proj";
  if (name == std::string(kIn) + ".weight")
    return {{.name = std::string(kIn) + "_weight", .transposed = true}};
  if (name == std::string(kIn) + ".bias") return {{.name = std::string(kIn) + "_bias"}};
  if (name.starts_with(kVision))
    return vision::pieces(after(name, kVision), parameter, config.vision, kVision);
  if (name.starts_with(kText))
    return encoder::text_tower(config.is_clip()).pieces(parameter, kText, more_tokens);
  return {{.name = name, .transposed = parameter.shape.size() == 2}};
}

hugging_face::NameMap name_map(const TwoTowersConfig& config, int64_t more_tokens) {
  return {.pieces = [config, more_tokens](
                        const Parameter& parameter) { return pieces(parameter, config, more_tokens); },
          .plain_name =
              [](const std::string& name) {
                return name.ends_with("embeddings.position_ids") ? std::string() : name;
              }};
}

void compare(const TwoTowersConfig& ours, const TwoTowersConfig& theirs,
             hugging_face::Differences& differences) {
  vision::compare(ours.vision, theirs.vision, theirs.vision.num_hidden_layers, differences);
  encoder::text_tower(ours.is_clip()).compare("task.text.", ours.text, theirs.text, differences);
  differences.compare("task.projection_dim", ours.projection_dim, theirs.projection_dim);
}

constexpr const char *kTextPart = "text_config", *kVisionPart = "vision_config", *kEnd = "eos_token_id";
// With this number for kEnd transformers' CLIP ends a text at the largest of its tokens.
constexpr int64_t kOldEnd = 2;

json token_ids(const TextEnds& ends) {
  return {{"bos_token_id", ends.begin ? json(*ends.begin) : json()},
          {kEnd, ends.end},
          {"pad_token_id", ends.padding}};
}

// The text tower's part of config.json, but for the numbers of tokens.
json text_json(const TwoTowersConfig& config) {
  json values = encoder::text_tower(config.is_clip()).json(config.text);
  values[config.is_clip() ? "projection_dim" : "projection_size"] = config.projection_dim;
  return values;
}

json vision_json(const TwoTowersConfig& config) {
  json values = vision::config_json(config.vision);
  if (config.is_clip()) {
    values.erase("vision_use_head");
    values["projection_dim"] = config.projection_dim;
  } else {
    values["vision_use_head"] = true;
  }
  return values;
}

nlohmann::ordered_json new_config(const TwoTowersConfig& config, const TextEnds& ends) {
  json text = text_json(config);
  text.update(token_ids(ends));
  json values{{"model_type", config.is_clip() ? "clip" : "siglip"},
              {"architectures", {config.is_clip() ? "CLIPModel" : "SiglipModel"}},
              {"initializer_factor", 1.0},
              {"torch_dtype", "float32"},
              {kTextPart, text},
              {kVisionPart, vision_json(config)}};
  if (config.is_clip()) {
    values["projection_dim"] = config.projection_dim;
    values["logit_scale_init_value"] = config.logit_scale;
  }
  return values;
}

// The config.json of a model that came with `values`. Only the end of CLIP's texts is read by transformers.
nlohmann::ordered_json kept_config(const TwoTowersConfig& config, const TextEnds& ends,
                                   nlohmann::ordered_json values) {
  const auto file = ConfigFile::of("config.json", values.dump());
  const TwoTowersConfig theirs = read_config(file);
  hugging_face::take_changes(values[kTextPart], text_json(theirs), text_json(config));
  hugging_face::take_changes(values[kVisionPart], vision_json(theirs), vision_json(config));
  int64_t end = 49407;  // transformers' default
  file.part(kTextPart).read(kEnd, end);
  const bool is_last = ends.end == ends.last && theirs.text.vocab_size == config.text.vocab_size;
  if (config.is_clip() && end != ends.end && !(end == kOldEnd && is_last))
    values[kTextPart].update(nlohmann::ordered_json(token_ids(ends)));
  return values;
}

}  // namespace

TwoTowersConfig read_config(const std::string& folder) {
  return read_config(ConfigFile(folder + "/config.json"));
}

TwoTowersConfig read_config(const ConfigFile& file) {
  const bool is_clip = file.type({"clip", "siglip"}) == "clip";
  const ConfigFile text = file.part("text_config"), vision = file.part("vision_config");
  hugging_face::check_old_form(file, "text_config");  // vision::read_config() checks the other
  TwoTowersConfig config;
  config.vision = vision::read_config(file);
  const encoder::Architecture& row = encoder::text_tower(is_clip);
  config.text = row.read(text, row.theirs);
  config = hugging_face::read_fields(file, whole_fields(), is_clip ? "CLIPConfig" : "SiglipConfig", config);
  if (!is_clip) {
    config.projection_dim = config.text.hidden_size;  // transformers' default
    text.read("projection_size", config.projection_dim);
    if (config.projection_dim != config.vision.hidden_size)
      text.fail("projection_size", concat("must be the width of the pictures, vision_config.hidden_size = ",
                                          config.vision.hidden_size));
    hugging_face::check_only(vision, "vision_use_head", hugging_face::only({true}));
  }
  return file.checked(config);
}

TwoTowersConfig import_model(const std::string& folder, TwoTowers& model) {
  const TwoTowersConfig theirs = read_config(folder);
  hugging_face::Differences differences;
  compare(model.config(), theirs, differences);
  differences.raise(folder);
  const int64_t more = theirs.text.vocab_size - model.config().text.vocab_size;
  hugging_face::import_weights(folder, model.parameters(), name_map(model.config(), more));
  return theirs;
}

std::string kept_weights(const std::string& folder, const TwoTowers& model) {
  return hugging_face::kept_weights(folder, model.parameters(), name_map(model.config(), 0));
}

std::vector<std::string> export_model(const std::string& folder, const TwoTowers& model, const TextEnds& ends,
                                      const hugging_face::FolderTexts& texts) {
  const TwoTowersConfig& config = model.config();
  if (config.is_clip() && ends.end == kOldEnd)
    fail_with(
        PL_ERROR_UNSUPPORTED, "a text ends with the token ", ends.end,
        ", which transformers' CLIP takes for an old way to say that it ends with the largest number: it "
        "cannot be exported with this tokenizer");
  const hugging_face::Came came = hugging_face::came_from(texts, {config.is_clip() ? "clip" : "siglip"});
  const hugging_face::NameMap map = name_map(config, 0);
  const hugging_face::ExportForm form = hugging_face::export_form(came.texts, model.parameters(), map);
  hugging_face::export_weights(folder, model.parameters(), map, {}, form);
  hugging_face::write_config(
      folder, came.config.is_null() ? new_config(config, ends) : kept_config(config, ends, came.config),
      form);
  return hugging_face::notes_of(form);
}

}  // namespace pipeline::two_towers
