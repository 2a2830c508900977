#pragma once

#include <string>

#include "gpt2_config.hpp"

namespace pipeline::summarization {

// The text of config.json and generation_config.json for a model that was trained with this configuration.
std::string format_gpt2_config(const Gpt2Config& config);
std::string format_generation_config(const Gpt2Config& config);

}  // namespace pipeline::summarization
