// What options follow from the folder of a CLIP or SigLIP, and what such a folder says of pictures.
#include <nlohmann/json.hpp>

#include "hugging_face/folder_teller.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/tasks/contrastive/model/folder.hpp"
#include "plugins/tasks/contrastive/task/config.hpp"
#include "plugins/tasks/contrastive/task/processor_file.hpp"
#include "plugins/tasks/vlm/task/image_processor.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::contrastive {

namespace fs = std::filesystem;
using nlohmann::json;

images::ResizeOptions ContrastiveTaskConfig::resize_options() const {
  images::ResizeOptions options;
  options.size = vision.vision.image_size;
  options.mode = vision.resize == "crop"     ? images::ResizeMode::kCrop
                 : vision.resize == "squash" ? images::ResizeMode::kSquash
                                             : images::ResizeMode::kPad;
  options.filter = vision.resample == "bilinear" ? images::Filter::kBilinear : images::Filter::kBicubic;
  if (!is_clip()) options.mean = options.deviation = {0.5, 0.5, 0.5};
  return options;
}

images::DecodeOptions ContrastiveTaskConfig::decode_options() const {
  images::DecodeOptions options;
  options.max_pixels = static_cast<uint64_t>(data.max_pixels);
  if (data.background == "drop") {
    options.background.reset();
  } else {
    const uint8_t level = data.background == "white" ? 255 : data.background == "black" ? 0 : 128;
    options.background = {level, level, level};
  }
  return options;
}

std::string processor_file(const ContrastiveTaskConfig& config) {
  const images::ResizeOptions options = config.resize_options();
  const json square{{"height", options.size}, {"width", options.size}};
  const bool squashes = options.mode == images::ResizeMode::kSquash,
             pads = options.mode == images::ResizeMode::kPad;
  json values{{"image_processor_type", pads               ? "LlavaImageProcessor"
                                       : config.is_clip() ? "CLIPImageProcessor"
                                                          : "SiglipImageProcessor"},
              {"do_convert_rgb", true},
              {"do_resize", true},
              {"size", squashes ? square : json{{"shortest_edge", options.size}}},
              {"resample", options.filter == images::Filter::kBilinear ? 2 : 3},  // Pillow's numbers
              {"do_center_crop", !squashes},
              {"crop_size", square},
              {"do_rescale", true},
              {"rescale_factor", 1.0 / 255},
              {"do_normalize", true},
              {"image_mean", options.mean},
              {"image_std", options.deviation}};
  if (pads) values["do_pad"] = true;
  return values.dump(2) + "\n";
}

void ContrastiveTaskConfig::read_model(const ContrastiveTaskConfig& config, const fs::path& init_from,
                                       const ModelOptions& say) {
  text::check_tokenizer(say, config.tokenizer.path);
  if (init_from.empty()) return;
  const TwoTowersConfig theirs = read_config(init_from.string());
  const hugging_face::FolderTeller whole(say, "", init_from / "config.json"),
      vision(say, "vision.", init_from / "config.json"), text(say, "text.", init_from / "config.json");
  whole("kind", theirs.vision.kind);
  whole("projection_dim", theirs.projection_dim);
  whole("logit_scale", theirs.logit_scale);
  const vision::Config& v = theirs.vision;
  vision("image_size", v.image_size);
  vision("patch_size", v.patch_size);
  vision("hidden_size", v.hidden_size);
  vision("num_hidden_layers", v.num_hidden_layers);
  vision("num_attention_heads", v.num_attention_heads);
  vision("intermediate_size", v.intermediate_size);
  vision("hidden_act", v.hidden_act);
  vision("layer_norm_eps", v.layer_norm_eps);
  vision("initializer_range", v.initializer_range);
  const TextConfig& t = theirs.text;
  text("max_position_embeddings", t.max_position_embeddings);
  text("hidden_size", t.hidden_size);
  text("num_hidden_layers", t.num_hidden_layers);
  text("num_attention_heads", t.num_attention_heads);
  text("intermediate_size", t.intermediate_size);
  text("hidden_act", t.hidden_act);
  text("layer_norm_eps", t.layer_norm_eps);
  text("initializer_range", t.initializer_range);
  ContrastiveTaskConfig as_there = config;
  as_there.kind = v.kind;
  as_there.vision.vision = v;
  if (const auto pictures =
          vlm::read_image_processor(init_from, {.square = as_there.resize_options()}, v.kind)) {
    say("vision.resize", pictures->resize, pictures->file);
    say("vision.resample", pictures->resample, pictures->file);
  }
  text::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));
  hugging_face::check_weights(init_from.string());
}

}  // namespace pipeline::contrastive
