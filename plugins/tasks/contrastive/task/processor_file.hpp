#pragma once

#include <string>

#include "plugins/tasks/contrastive/task/config.hpp"

namespace pipeline::contrastive {

// preprocessor_config.json, with which transformers makes the same pixels.
std::string processor_file(const ContrastiveTaskConfig& config);

}  // namespace pipeline::contrastive
