#pragma once

#include <string>
#include <vector>

#include "hugging_face/config_file.hpp"
#include "language/config.hpp"

namespace pipeline::language {

// What a config.json calls layers without and with a window, in its list of layer_types.
inline constexpr const char *kFullAttention = "full_attention", *kSlidingAttention = "sliding_attention";

// The types of the layers as Config::is_local() has them.
std::vector<std::string> layer_types(const Config& config);
// The types in the file, one for each layer; empty: it has no list.
std::vector<std::string> read_layer_types(const hugging_face::ConfigFile& file, const Config& config);
// Makes these types the configuration's, where its other members do not say the same. Throws an Error that
// names the first layer of a type that we do not compute.
void take_layer_types(const hugging_face::ConfigFile& file, std::vector<std::string> types, Config& config);

}  // namespace pipeline::language
