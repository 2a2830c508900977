#include "plugins/models/pictures/picture_options.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "hugging_face/config_fields.hpp"

namespace pipeline::pictures {
namespace {

namespace fs = std::filesystem;
using hugging_face::ConfigFile;
using nlohmann::json;

struct Processor {};  // without members: what has a value is read by code

// The fields of the eight image processors, in transformers 5 and before, and of CLIP's older form.
const hugging_face::Fields<Processor>& processor_fields() {
  using namespace hugging_face;
  static const Fields<Processor> kFields{
      {"image_processor_type", kReadElsewhere},
      {"feature_extractor_type", kReadElsewhere},
      {"size", kReadElsewhere},
      {"crop_size", kReadElsewhere},
      {"do_center_crop", kReadElsewhere},
      {"do_pad", kReadElsewhere},
      {"image_grid_pinpoints", kReadElsewhere},
      {"max_image_size", kReadElsewhere},
      {"do_image_splitting", kReadElsewhere},
      {"patch_size", kReadElsewhere},
      {"max_num_patches", kReadElsewhere},
      {"video_sampling", kWithoutEffect},  // SmolVLM's
      {"resample", kReadElsewhere},
      {"rescale_factor", kReadElsewhere},
      {"image_mean", kReadElsewhere},
      {"image_std", kReadElsewhere},
      {"do_resize", only({true})},
      {"do_rescale", only({true})},
      {"do_normalize", only({true})},
      {"do_convert_rgb", kWithoutEffect},  // pictures are in any case
      {"default_to_square", kWithoutEffect},
      // what a call takes and gives back
      {"processor_class", kWithoutEffect},
      {"data_format", kWithoutEffect},
      {"input_data_format", kWithoutEffect},
      {"return_tensors", kWithoutEffect},
      {"device", kWithoutEffect},
      {"disable_grouping", kWithoutEffect},
  };
  return kFields;
}

std::optional<ConfigFile> find_processor(const fs::path& folder, fs::path& file) {
  constexpr const char* kNested = "image_processor";
  std::error_code ignored;
  if (file = folder / "processor_config.json"; fs::exists(file, ignored))
    if (const ConfigFile whole(file.string()); whole.find(kNested) != nullptr) return whole.part(kNested);
  file = folder / "preprocessor_config.json";
  return fs::exists(file, ignored) ? std::optional(ConfigFile(file.string())) : std::nullopt;
}

// "Siglip" of SiglipImageProcessorFast; `usual` where no class is named.
std::string class_of(const ConfigFile& file, const std::string& usual) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    std::string name;
    file.read(key, name);
    if (name.empty()) continue;
    for (const char* known :
         {"CLIP", "Siglip", "Siglip2", "Bit", "Llava", "LlavaNext", "Idefics3", "SmolVLM"})
      for (const char* rest :
           {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"})
        if (name == std::string(known) + rest) return known;
    file.fail(
        key,
        "must be CLIPImageProcessor, SiglipImageProcessor, Siglip2ImageProcessor, BitImageProcessor, "
        "LlavaImageProcessor, LlavaNextImageProcessor, Idefics3ImageProcessor or SmolVLMImageProcessor");
  }
  return usual;
}

bool is_near(const json& value, double expected) {
  return value.is_number() && std::abs(value.get<double>() - expected) <= 1e-6 * std::abs(expected);
}

// Throws for what is wrong with a field, which may be absent.
[[noreturn]] void refuse(const ConfigFile& file, const char* key, const std::string& problem) {
  if (file.find(key) == nullptr) file.fail_missing(key, problem);
  file.fail(key, problem);
}

// `usual`: what is meant where the field is absent.
void check_channels(const ConfigFile& file, const char* key, const std::array<double, 3>& expected,
                    const std::array<double, 3>& usual) {
  const json* const found = file.find(key);
  bool is_same = found == nullptr ? usual == expected : found->is_array() && found->size() == expected.size();
  for (size_t i = 0; found != nullptr && is_same && i < expected.size(); ++i)
    is_same = is_near((*found)[i], expected[i]);
  if (!is_same)
    refuse(file, key, concat("only ", json(expected).dump(), " is supported for this kind of encoder"));
}

struct Size {
  int64_t pixels;
  bool is_edge;  // of the shortest edge, not of both of a square
};

// The size under `key`, whose is_edge is `usual` if it is one number or absent.
std::optional<Size> size_in(const ConfigFile& file, const char* key, bool usual) {
  const json* const found = file.find(key);
  if (found == nullptr) return Size{224, usual};
  const auto pixels = [&](const json& value, bool is_edge) {
    return value.is_number_unsigned() ? std::optional(Size{value.get<int64_t>(), is_edge}) : std::nullopt;
  };
  if (!found->is_object()) return pixels(*found, usual);
  if (found->size() == 1 && found->contains("shortest_edge")) return pixels((*found)["shortest_edge"], true);
  if (found->size() == 2 && found->contains("height") && found->value("width", json()) == (*found)["height"])
    return pixels((*found)["height"], false);
  return std::nullopt;
}

bool is_edge(const ConfigFile& file, const char* key, int64_t expected, bool usual) {
  const std::optional<Size> size = size_in(file, key, usual);
  if (!size || size->pixels != expected)
    refuse(file, key, concat("must be the ", expected, " pixels of image_size in config.json"));
  return size->is_edge;
}

void check_grids(const ConfigFile& file, const images::TileOptions& ours) {
  json expected = json::array();
  for (const images::Grid& grid : ours.grids)
    expected.push_back({grid.rows * ours.square.size, grid.columns * ours.square.size});
  const json usual = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};  // transformers' default
  const json* const found = file.find("image_grid_pinpoints");
  if (!ours.grids.empty() && (found == nullptr ? usual : *found) != expected)
    refuse(file, "image_grid_pinpoints", "must be " + expected.dump() + ", as config.json has it");
}

// Idefics3's and SmolVLM's, which scale by the longest edge.
void read_splitting(const ConfigFile& file, int64_t side, ImageProcessor& result) {
  constexpr const char* kEdge = "longest_edge";
  const auto edge_of = [&](const char* key, int64_t usual) {
    const json* const found = file.find(key);
    if (found == nullptr) return usual;
    if (!found->is_object() || found->size() != 1 || !found->contains(kEdge) ||
        !(*found)[kEdge].is_number_unsigned() || (*found)[kEdge] < 1 || (*found)[kEdge] > 4096)
      file.fail(key, "must be {\"longest_edge\": pixels}, up to 4096");
    return (*found)[kEdge].get<int64_t>();
  };
  if (edge_of("max_image_size", 364) != side)
    refuse(file, "max_image_size", concat("must have the ", side, " pixels of image_size in config.json"));
  result.longest_edge = edge_of("size", 4 * 364);
  file.read("do_image_splitting", result.split);
  result.resize = "squash";
}

// SigLIP 2's NaFlex.
void read_patches(const ConfigFile& file, int64_t patch, ImageProcessor& result) {
  int64_t size = 16;
  file.read("patch_size", size);
  if (size != patch) refuse(file, "patch_size", concat("must be the ", patch, " pixels of config.json"));
  result.max_patches = 256;
  file.read("max_num_patches", result.max_patches);
  if (result.max_patches < 1) file.fail("max_num_patches", "must be 1 or more");
}

// DINOv2's, which has positions for another square than it is given, and scales to yet another.
void read_crop(const ConfigFile& file, bool crops, int64_t square, ImageProcessor& result) {
  const std::optional<Size> size = size_in(file, "size", true), crop = size_in(file, "crop_size", false);
  if (!size || size->pixels < 1 || size->is_edge != crops)
    refuse(file, "size",
           crops ? "must be {\"shortest_edge\": pixels}, as do_center_crop is true"
                 : "must be {\"height\": pixels, \"width\": pixels}, the same, as do_center_crop is false");
  if (crops && (!crop || crop->pixels < 1 || crop->is_edge)) refuse(file, "crop_size", "must be a square");
  const int64_t seen = crops ? crop->pixels : size->pixels;
  result.resize = crops ? "crop" : "squash";
  result.crop_size = seen == square ? 0 : seen;
  if (crops && size->pixels != seen) result.shortest_edge = size->pixels;
}

}  // namespace

std::optional<ImageProcessor> read_image_processor(const fs::path& folder, const images::TileOptions& tiles,
                                                   const std::string& kind_of_encoder) {
  fs::path path;
  const std::optional<ConfigFile> opened = find_processor(folder, path);
  if (!opened) return std::nullopt;
  ImageProcessor result = read_image_processor(*opened, tiles, kind_of_encoder);
  result.file = path;
  return result;
}

ImageProcessor read_image_processor(const ConfigFile& file, const images::TileOptions& tiles,
                                    const std::string& kind_of_encoder) {
  const images::ResizeOptions& ours = tiles.square;
  ImageProcessor result;
  const std::string kind = class_of(file, kind_of_encoder == "clip"      ? "CLIP"
                                          : kind_of_encoder == "dinov2"  ? "Bit"
                                          : kind_of_encoder == "siglip2" ? "Siglip2"
                                                                         : "Siglip");
  hugging_face::read_fields(file, processor_fields(), kind + "ImageProcessor", Processor());
  const bool splits = kind == "Idefics3" || kind == "SmolVLM";
  const bool is_flexible = kind == "Siglip2";
  if (is_flexible != (tiles.max_patches > 0))
    refuse(
        file, "image_processor_type",
        concat("must be Siglip2ImageProcessor for a siglip2, and for no other: this is a ", kind_of_encoder));
  images::ResizeOptions usual;
  if (kind.starts_with("Siglip") || splits) usual.mean = usual.deviation = {0.5, 0.5, 0.5};
  check_channels(file, "image_mean", ours.mean, usual.mean);
  check_channels(file, "image_std", ours.deviation, usual.deviation);
  if (const json* factor = file.find("rescale_factor"); factor != nullptr && !is_near(*factor, 1.0 / 255))
    file.fail("rescale_factor", "only 1/255 is supported");

  constexpr int64_t kLanczos = 1, kBilinear = 2, kBicubic = 3;  // Pillow's numbers
  int64_t resample = splits ? kLanczos : is_flexible ? kBilinear : kBicubic;
  file.read("resample", resample);
  if (resample < kLanczos || resample > kBicubic)
    file.fail("resample", "only 1 (lanczos), 2 (bilinear) and 3 (bicubic) are supported");
  result.resample = resample == kLanczos ? "lanczos" : resample == kBilinear ? "bilinear" : "bicubic";
  if (splits) {
    read_splitting(file, ours.size, result);
    return result;
  }
  if (is_flexible) {
    read_patches(file, ours.size, result);
    result.resize = "squash";
    return result;
  }

  bool crops = kind != "Siglip", pads = false;
  file.read("do_center_crop", crops);
  file.read("do_pad", pads);
  const bool has_grids = kind == "LlavaNext";
  if (!tiles.grids.empty() && !has_grids)
    refuse(file, "image_processor_type",
           "must be LlavaNextImageProcessor, which makes the grids of config.json");
  if (has_grids) check_grids(file, tiles);
  if (pads && kind != "Llava" && !has_grids) file.fail("do_pad", "only false is supported");
  if (kind_of_encoder == "dinov2" && !pads && !has_grids) {
    read_crop(file, crops, ours.size, result);
    return result;
  }
  const bool by_edge = is_edge(file, "size", ours.size, kind != "Siglip");
  if (crops && is_edge(file, "crop_size", ours.size, false)) refuse(file, "crop_size", "must be a square");
  if (by_edge && !crops && !has_grids)
    refuse(file, "do_center_crop", "must be true where size is that of the shortest edge alone");
  if (pads && !by_edge && !has_grids) refuse(file, "size", "must be a shortest_edge where do_pad is true");
  result.resize = has_grids ? "squash" : pads ? "pad" : by_edge ? "crop" : "squash";
  return result;
}

}  // namespace pipeline::pictures
