#include "plugins/models/pictures/picture_options.hpp"

#include <nlohmann/json.hpp>

namespace pipeline::pictures {
namespace {

using nlohmann::json;

// Pillow's.
int number_of(images::Filter filter) {
  return filter == images::Filter::kLanczos ? 1 : filter == images::Filter::kBilinear ? 2 : 3;
}

}  // namespace

void PictureOptions::describe_encoder(Options& o) {
  hugging_face::describe_fields(o, vision::model_fields(), vision);
}

void PictureOptions::describe_squares(Options& o) {
  o("resize", resize,
    "crop: shortest side to image_size, then the centre; squash: both sides; pad: to a square first")
      .choices({"crop", "squash", "pad"})
      .follows();
  o("resample", resample, "how pictures are scaled; SigLIP 2's are bilinear, Idefics3's lanczos")
      .choices({"bicubic", "bilinear", "lanczos"})
      .follows();
}

std::string PictureOptions::key() const {
  const vision::Config& v = vision;
  std::string key =
      concat(v.kind, " ", v.image_size, " ", v.crop_size, " ", v.patch_size, " ", v.hidden_size, " ",
             v.num_hidden_layers, " ", v.num_attention_heads, " ", v.intermediate_size, " ",
             v.num_register_tokens, " ", v.layer_norm_eps, " ", v.hidden_act, " ", resize, " ", resample, " ",
             longest_edge, " ", shortest_edge, " ", max_patches, " ", split);
  for (const std::string& grid : grids) key += " " + grid;
  return key;
}

images::TileOptions PictureOptions::tiles() const {
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

void tell_encoder(const hugging_face::FolderOptions& tell, const vision::Config& theirs, int64_t used,
                  bool may_leave_out) {
  for (const auto& field : vision::model_fields())
    if (field.name == std::string_view("num_hidden_layers"))
      tell(field.name, theirs.num_hidden_layers, used, may_leave_out && used < theirs.num_hidden_layers);
    else
      hugging_face::tell_field(tell, field, theirs, theirs);
}

json image_processor(const PictureOptions& pictures, bool is_smol) {
  const vision::Config& vision = pictures.vision;
  const images::TileOptions tiles = pictures.tiles();
  const images::ResizeOptions& options = tiles.square;
  const json square = {{"height", options.size}, {"width", options.size}};
  const bool squashes = options.mode == images::ResizeMode::kSquash,
             pads = options.mode == images::ResizeMode::kPad;
  json values = {{"do_convert_rgb", true},
                 {"do_resize", true},
                 {"resample", number_of(options.filter)},
                 {"do_rescale", true},
                 {"rescale_factor", 1.0 / 255},
                 {"do_normalize", true},
                 {"image_mean", options.mean},
                 {"image_std", options.deviation}};
  if (vision.has_last_norm()) {
    values.update({{"image_processor_type", is_smol ? "SmolVLMImageProcessor" : "Idefics3ImageProcessor"},
                   {"size", {{"longest_edge", tiles.longest_edge > 0 ? tiles.longest_edge : options.size}}},
                   {"max_image_size", {{"longest_edge", options.size}}},
                   {"do_image_splitting", tiles.longest_edge > 0 && tiles.splits},
                   {"do_pad", true}});
    return values;
  }
  if (vision.is_flexible()) {
    values.update({{"image_processor_type", "Siglip2ImageProcessor"},
                   {"patch_size", vision.patch_size},
                   {"max_num_patches", pictures.max_patches}});
    return values;
  }
  const bool has_grids = !tiles.grids.empty();
  const int64_t edge = options.shortest_edge > 0 ? options.shortest_edge : options.size;
  values.update({{"image_processor_type", has_grids          ? "LlavaNextImageProcessor"
                                          : pads             ? "LlavaImageProcessor"
                                          : vision.is_clip() ? "CLIPImageProcessor"
                                          : vision.is_dino() ? "BitImageProcessor"
                                                             : "SiglipImageProcessor"},
                 {"size", squashes && !has_grids ? square : json{{"shortest_edge", edge}}},
                 {"do_center_crop", !squashes || has_grids},
                 {"crop_size", square}});
  if (pads || has_grids) values["do_pad"] = true;
  for (const images::Grid& grid : tiles.grids)
    values["image_grid_pinpoints"].push_back({grid.rows * options.size, grid.columns * options.size});
  return values;
}

namespace {

// Whether a folder's image processor makes the same pixels as `ours`.
bool makes_the_same(const json& theirs, const json& ours, PictureOptions pictures) {
  pictures.vision.crop_size = 0;  // the files say it
  const auto read = [&](const json& values) {
    return read_image_processor(hugging_face::ConfigFile::of("preprocessor_config.json", values.dump()),
                                pictures.tiles(), pictures.vision.kind);
  };
  try {
    return read(theirs) == read(ours);
  } catch (const Error&) {
    return false;
  }
}

// `theirs` is for another class where the types differ, with other options.
json with_options_of(const json& theirs, const json& ours) {
  constexpr const char* kType = "image_processor_type";
  json merged = theirs.value(kType, json()) == ours.at(kType) ? theirs : json::object();
  merged.update(ours);
  return merged;
}

}  // namespace

json object_in(const hugging_face::FolderTexts& files, const char* name) {
  const auto found = files.find(name);
  json object =
      found == files.end() ? json() : json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : json::object();
}

hugging_face::FolderTexts image_processor_files(const hugging_face::FolderTexts& came,
                                                const PictureOptions& pictures, bool is_smol) {
  constexpr const char *kImages = "preprocessor_config.json", *kWhole = "processor_config.json",
                       *kNested = "image_processor";
  hugging_face::FolderTexts files;
  for (const char* name : {kImages, kWhole})
    if (const auto found = came.find(name); found != came.end()) files.insert(*found);
  json whole = object_in(came, kWhole), images = object_in(came, kImages);
  const bool is_nested = whole.contains(kNested) && whole[kNested].is_object();  // since transformers 5
  if (is_nested) images = whole[kNested];
  const json ours = image_processor(pictures, is_smol);
  if (!images.empty() && makes_the_same(images, ours, pictures)) return files;
  images = with_options_of(images, ours);
  files[kImages] = images.dump(2) + "\n";
  if (is_nested) {
    whole[kNested] = images;
    files[kWhole] = whole.dump(2) + "\n";
  }
  return files;
}

}  // namespace pipeline::pictures
