#include "plugins/tasks/vlm/task/picture_options.hpp"

#include <nlohmann/json.hpp>

namespace pipeline::vlm {

ResizeOptions resize_options(const VisionOptions& vision) {
  ResizeOptions options;
  options.size = vision.vision.image_size;
  options.mode = vision.resize == "crop"     ? ResizeMode::kCrop
                 : vision.resize == "squash" ? ResizeMode::kSquash
                                             : ResizeMode::kPad;
  if (!vision.vision.is_clip()) options.mean = options.deviation = {0.5f, 0.5f, 0.5f};
  return options;
}

std::string preprocessor_json(const VisionOptions& vision) {
  const ResizeOptions options = resize_options(vision);
  const nlohmann::json square = {{"height", options.size}, {"width", options.size}};
  const bool squashes = options.mode == ResizeMode::kSquash, pads = options.mode == ResizeMode::kPad;
  nlohmann::json values = {{"image_processor_type", pads                      ? "LlavaImageProcessor"
                                                    : vision.vision.is_clip() ? "CLIPImageProcessor"
                                                                              : "SiglipImageProcessor"},
                           {"do_convert_rgb", true},
                           {"do_resize", true},
                           {"size", squashes ? square : nlohmann::json{{"shortest_edge", options.size}}},
                           {"resample", 3},  // Pillow's bicubic
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

DecodeOptions decode_options(const DataConfig& data) {
  DecodeOptions options;
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
