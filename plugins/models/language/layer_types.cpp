#include "language/layer_types.hpp"

#include <algorithm>

namespace pipeline::language {

std::vector<std::string> layer_types(const Config& config) {
  std::vector<std::string> types;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    types.emplace_back(config.is_local(i) ? kSlidingAttention : kFullAttention);
  return types;
}

std::vector<std::string> read_layer_types(const hugging_face::ConfigFile& file, const Config& config) {
  const nlohmann::json* found = file.find("layer_types");
  if (found == nullptr) return {};
  const auto is_text = [](const nlohmann::json& one) { return one.is_string(); };
  if (!found->is_array() || static_cast<int64_t>(found->size()) != config.num_hidden_layers ||
      !std::ranges::all_of(*found, is_text))
    file.fail("layer_types",
              concat("must be a list of num_hidden_layers (", config.num_hidden_layers, ") names"));
  return found->get<std::vector<std::string>>();
}

void take_layer_types(const hugging_face::ConfigFile& file, std::vector<std::string> types, Config& config) {
  if (types.empty()) return;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != kFullAttention && types[i] != kSlidingAttention)
      file.fail("layer_types", concat("layer ", i, " is \"", types[i], "\" and must be ", kFullAttention,
                                      " or ", kSlidingAttention));
    if (types[i] == kSlidingAttention && config.sliding_window == 0)
      file.fail("layer_types", concat("layer ", i, " is \"", types[i], "\" and must be ", kFullAttention,
                                      ": no window is in use"));
  }
  if (types != layer_types(config)) config.layer_types = std::move(types);
}

}  // namespace pipeline::language
