// For tasks: a vision encoder, and how pictures are prepared for it, as options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <pipeline/options.hpp>

#include "hugging_face/config_fields.hpp"
#include "hugging_face/config_file.hpp"
#include "hugging_face/token_ids.hpp"
#include "plugins/data/images/tiles.hpp"
#include "vision/vision_tower.hpp"

namespace pipeline::pictures {

struct PictureOptions {
  vision::Config vision;
  double lr_multiplier = 1;
  std::string resize = "crop", resample = "bicubic";
  std::vector<std::string> grids;
  int64_t longest_edge = 0, shortest_edge = 0, max_patches = 256;
  bool split = true;

  // A task derives its own from this, and describes what it has of these.
  void describe_encoder(Options& o);
  void describe_squares(Options& o);
  void describe_rate(Options& o) { o("lr_multiplier", lr_multiplier, "times the learning rate").above(0); }

  images::TileOptions tiles() const;
  // A text of all that a picture's features depend on besides the picture and the weights.
  std::string key() const;
};

// The options that describe_encoder() has follow a folder's. `used`: layers that are set; as many of the
// folder's are as good, if it `may_leave_out` the last ones.
void tell_encoder(const hugging_face::FolderOptions& tell, const vision::Config& theirs, int64_t used,
                  bool may_leave_out);

// The values for preprocessor_config.json by which transformers makes the same pixels. `is_smol`: an
// Idefics3's is SmolVLM's.
nlohmann::json image_processor(const PictureOptions& pictures, bool is_smol = false);

// The JSON object of one of these files; an empty one where there is none.
nlohmann::json object_in(const hugging_face::FolderTexts& files, const char* name);

// preprocessor_config.json, and processor_config.json where `came` has it. Those of `came`, a model's folder,
// as they are, where they make the same pixels; else with the values of `pictures`.
hugging_face::FolderTexts image_processor_files(const hugging_face::FolderTexts& came,
                                                const PictureOptions& pictures, bool is_smol = false);

// How a model's folder says that its pictures are prepared.
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
