#include "plugins/tasks/vlm/picture_options.hpp"

#include <nlohmann/json.hpp>

namespace pipeline::tasks::vlm {

void VisionOptions::check_kind(const ConfigErrors& errors) const {
  const auto only = [&](const char* key, bool is_set, bool is_its, const char* kind) {
    if (is_set && !is_its)
      errors(key,
             concat("is of task.vision.kind = \"", kind, "\" alone: must be 0 for \"", vision.kind, "\""));
  };
  only("vision.crop_size", vision.crop_size > 0, vision.is_dino(), "dinov2");
  only("vision.num_register_tokens", vision.num_register_tokens > 0, vision.is_dino(), "dinov2");
  if (vision.is_dino() && vision.intermediate_size % vision.hidden_size != 0)
    errors("vision.intermediate_size", concat("must be a multiple of task.vision.hidden_size (",
                                              vision.hidden_size, "), as DINOv2 has it"));
  if (vision.is_flexible() && vision.image_size % vision.patch_size != 0)
    errors("vision.image_size",
           concat("must be a multiple of task.vision.patch_size (", vision.patch_size, ") for siglip2"));
  if ((vision.is_flexible() || vision.num_register_tokens > 0) && (!grids.empty() || longest_edge > 0))
    errors(
        grids.empty() ? "vision.longest_edge" : "vision.grids",
        "goes with no NaFlex, whose pictures are not cut, and no registers, which have no place in a grid: "
        "leave it out");
  if (shortest_edge > 0 && resize == "squash")
    errors("vision.shortest_edge", "must be 0 with task.vision.resize = \"squash\", which scales both sides");
}

using nlohmann::json;
using pictures::object_in;

bool is_smol(const tokenizer::Files& carried) {
  return object_in(carried, "processor_config.json").value("processor_class", "") == "SmolVLMProcessor" ||
         object_in(carried, "preprocessor_config.json").value("processor_class", "") == "SmolVLMProcessor";
}

tokenizer::Files processor_files(const VisionOptions& options, int64_t scale_factor,
                                 const tokenizer::Files& carried, const std::string& image_token,
                                 bool is_whole) {
  constexpr const char *kImages = "preprocessor_config.json", *kWhole = "processor_config.json";
  tokenizer::Files files = pictures::image_processor_files(carried, options, is_smol(carried));
  const json before = object_in(files, kWhole);
  if (before.empty() && (image_token.empty() || (is_whole && carried.contains(kImages)))) return files;
  json values;
  if (options.vision.has_last_norm()) {
    values = {{"processor_class", is_smol(carried) ? "SmolVLMProcessor" : "Idefics3Processor"},
              {"image_seq_len", options.vision.patches() / (scale_factor * scale_factor)}};
  } else {
    const bool has_class = options.vision.has_class();  // the class token is not used
    values = {{"processor_class", options.grids.empty() ? "LlavaProcessor" : "LlavaNextProcessor"},
              {"patch_size", options.vision.patch_size},
              {"vision_feature_select_strategy", has_class ? "default" : "full"},
              {"num_additional_image_tokens", options.vision.tokens() - options.vision.patches()}};
    if (!image_token.empty()) values["image_token"] = image_token;
  }
  json whole = before;
  for (const auto& [key, value] : values.items())
    if (!is_whole || whole.empty() || whole.contains(key)) whole[key] = value;
  if (whole != before) files[kWhole] = whole.dump(2) + "\n";
  return files;
}

}  // namespace pipeline::tasks::vlm
