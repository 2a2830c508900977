// How a model's folder says that its pictures are prepared.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hugging_face/config_file.hpp"
#include "plugins/data/images/tiles.hpp"

namespace pipeline::pictures {

struct ImageProcessor {
  std::filesystem::path file;
  std::string resize, resample;  // as in task.vision, and so are all that follow
  int64_t longest_edge = 0;
  bool split = true;
  int64_t shortest_edge = 0, crop_size = 0, max_patches = 0;

  bool operator==(const ImageProcessor&) const = default;
};

// What preprocessor_config.json says, or the part of processor_config.json where transformers 5 writes it and
// reads it first. Nothing where neither is there. Throws an Error (PL_ERROR_CONFIG) that names the first
// field by which the model would see other numbers than `ours`, whose grids, if there are any, must be the
// folder's. `kind`: of the vision encoder, whose class it is where none is named; only DINOv2's may cut
// another square than `ours`.
std::optional<ImageProcessor> read_image_processor(const std::filesystem::path& folder,
                                                   const images::TileOptions& ours, const std::string& kind);
// What such a file or part says; `file` is left empty.
ImageProcessor read_image_processor(const hugging_face::ConfigFile& file, const images::TileOptions& ours,
                                    const std::string& kind);

}  // namespace pipeline::pictures
