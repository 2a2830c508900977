#include "plugins/tasks/vlm/task/picture_options.hpp"

#include <nlohmann/json.hpp>

namespace pipeline::vlm {

images::TileOptions VisionOptions::tiles() const {
  images::TileOptions options;
  options.square.size = vision.square();
  options.square.shortest_edge = shortest_edge;
  if (vision.is_flexible()) options.max_patches = max_patches;
  options.square.mode = resize == "crop"     ? images::ResizeMode::kCrop
                        : resize == "squash" ? images::ResizeMode::kSquash
                                             : images::ResizeMode::kPad;
  options.square.filter = resample == "bilinear"  ? images::Filter::kBilinear
                          : resample == "lanczos" ? images::Filter::kLanczos
                                                  : images::Filter::kBicubic;
  options.longest_edge = longest_edge;
  options.splits = split;
  if (vision.is_dino()) {  // ImageNet's
    options.square.mean = {0.485, 0.456, 0.406};
    options.square.deviation = {0.229, 0.224, 0.225};
  } else if (!vision.is_clip()) {
    options.square.mean = options.square.deviation = {0.5, 0.5, 0.5};
  }
  for (const std::string& grid : grids)
    if (const auto named = images::grid_named(grid))
      options.grids.push_back(*named);  // validate() has seen all
  return options;
}

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

namespace {

using nlohmann::json;

// An object of a file that was carried; an empty one where it is none.
json object_in(const text::Files& files, const char* name) {
  const auto found = files.find(name);
  json object =
      found == files.end() ? json() : json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : json::object();
}

// Pillow's.
int number_of(images::Filter filter) {
  return filter == images::Filter::kLanczos ? 1 : filter == images::Filter::kBilinear ? 2 : 3;
}

json image_processor(const VisionOptions& vision, bool is_smol) {
  const images::TileOptions tiles = vision.tiles();
  const images::ResizeOptions& options = tiles.square;
  const json square = {{"height", options.size}, {"width", options.size}};
  const bool squashes = options.mode == images::ResizeMode::kSquash,
             pads = options.mode == images::ResizeMode::kPad;
  if (vision.vision.has_last_norm())
    return {{"image_processor_type", is_smol ? "SmolVLMImageProcessor" : "Idefics3ImageProcessor"},
            {"do_convert_rgb", true},
            {"do_resize", true},
            {"size", {{"longest_edge", tiles.longest_edge > 0 ? tiles.longest_edge : options.size}}},
            {"max_image_size", {{"longest_edge", options.size}}},
            {"do_image_splitting", tiles.longest_edge > 0 && tiles.splits},
            {"resample", number_of(options.filter)},
            {"do_rescale", true},
            {"rescale_factor", 1.0 / 255},
            {"do_normalize", true},
            {"image_mean", options.mean},
            {"image_std", options.deviation},
            {"do_pad", true}};
  if (vision.vision.is_flexible())
    return {{"image_processor_type", "Siglip2ImageProcessor"},
            {"do_convert_rgb", true},
            {"do_resize", true},
            {"patch_size", vision.vision.patch_size},
            {"max_num_patches", vision.max_patches},
            {"resample", number_of(options.filter)},
            {"do_rescale", true},
            {"rescale_factor", 1.0 / 255},
            {"do_normalize", true},
            {"image_mean", options.mean},
            {"image_std", options.deviation}};
  const bool has_grids = !tiles.grids.empty();
  const int64_t edge = options.shortest_edge > 0 ? options.shortest_edge : options.size;
  json values = {{"image_processor_type", has_grids                 ? "LlavaNextImageProcessor"
                                          : pads                    ? "LlavaImageProcessor"
                                          : vision.vision.is_clip() ? "CLIPImageProcessor"
                                          : vision.vision.is_dino() ? "BitImageProcessor"
                                                                    : "SiglipImageProcessor"},
                 {"do_convert_rgb", true},
                 {"do_resize", true},
                 {"size", squashes && !has_grids ? square : json{{"shortest_edge", edge}}},
                 {"resample", number_of(options.filter)},
                 {"do_center_crop", !squashes || has_grids},
                 {"crop_size", square},
                 {"do_rescale", true},
                 {"rescale_factor", 1.0 / 255},
                 {"do_normalize", true},
                 {"image_mean", options.mean},
                 {"image_std", options.deviation}};
  if (pads || has_grids) values["do_pad"] = true;
  for (const images::Grid& grid : tiles.grids)
    values["image_grid_pinpoints"].push_back({grid.rows * options.size, grid.columns * options.size});
  return values;
}

// `theirs` is for another class where the types differ, with other options.
json with_options_of(const json& theirs, const json& ours) {
  constexpr const char* kType = "image_processor_type";
  json merged = theirs.value(kType, json()) == ours.at(kType) ? theirs : json::object();
  merged.update(ours);
  return merged;
}

}  // namespace

bool is_smol(const text::Files& carried) {
  return object_in(carried, "processor_config.json").value("processor_class", "") == "SmolVLMProcessor" ||
         object_in(carried, "preprocessor_config.json").value("processor_class", "") == "SmolVLMProcessor";
}

text::Files processor_files(const VisionOptions& vision, int64_t scale_factor, const text::Files& carried,
                            const std::string& image_token) {
  constexpr const char *kImages = "preprocessor_config.json", *kWhole = "processor_config.json",
                       *kNested = "image_processor";
  json whole = object_in(carried, kWhole);
  const bool is_nested = whole.contains(kNested) && whole[kNested].is_object();  // since transformers 5
  const json images = with_options_of(is_nested ? whole[kNested] : object_in(carried, kImages),
                                      image_processor(vision, is_smol(carried)));
  text::Files files{{kImages, images.dump(2) + "\n"}};
  if (whole.empty() && image_token.empty()) return files;
  if (is_nested) whole[kNested] = images;
  if (vision.vision.has_last_norm()) {
    whole.update({{"processor_class", is_smol(carried) ? "SmolVLMProcessor" : "Idefics3Processor"},
                  {"image_seq_len", vision.vision.patches() / (scale_factor * scale_factor)}});
    files[kWhole] = whole.dump(2) + "\n";
    return files;
  }
  if (!image_token.empty()) whole["image_token"] = image_token;
  const bool has_class = vision.vision.has_class();  // which is not used
  whole.update({{"processor_class", vision.grids.empty() ? "LlavaProcessor" : "LlavaNextProcessor"},
                {"patch_size", vision.vision.patch_size},
                {"vision_feature_select_strategy", has_class ? "default" : "full"},
                {"num_additional_image_tokens", vision.vision.tokens() - vision.vision.patches()}});
  files[kWhole] = whole.dump(2) + "\n";
  return files;
}

images::DecodeOptions decode_options(const DataConfig& data) {
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

}  // namespace pipeline::vlm
