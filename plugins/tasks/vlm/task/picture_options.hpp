// How pictures are prepared, as the configuration says it.
#pragma once

#include <string>

#include "plugins/tasks/vlm/images/image.hpp"
#include "plugins/tasks/vlm/images/resize.hpp"
#include "plugins/tasks/vlm/task/config.hpp"

namespace pipeline::vlm {

DecodeOptions decode_options(const DataConfig& data);
ResizeOptions resize_options(const VisionOptions& vision);

// The preprocessor_config.json with which transformers makes the same pixels.
std::string preprocessor_json(const VisionOptions& vision);

}  // namespace pipeline::vlm
