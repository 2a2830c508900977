// Hugging Face's folders of whole CLIP and SigLIP models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hugging_face/config_file.hpp"
#include "hugging_face/token_ids.hpp"
#include "plugins/models/two_towers/two_towers.hpp"

namespace pipeline::two_towers {

// What config.json says. Throws an Error that names file, key and value for what we do not compute.
TwoTowersConfig read_config(const std::string& folder);
TwoTowersConfig read_config(const hugging_face::ConfigFile& file);

// From now on the model starts from the folder's weights. Ours may have fewer or more tokens than the folder
// at the end, and rows are treated as with language models. Gives back the folder's configuration.
TwoTowersConfig import_model(const std::string& folder, TwoTowers& model);

// The numbers of the tokens that a text begins with, if any, and ends with, and that it is padded with; and
// the largest that there is.
struct TextEnds {
  std::optional<int64_t> begin;
  int64_t end = 0, padding = 0, last = 0;
};

// What is kept of the folder's weights for an export; see hugging_face::kept_weights().
std::string kept_weights(const std::string& folder, const TwoTowers& model);

// Writes a folder for CLIPModel or SiglipModel. It must exist. `came`: see language::export_model(), also for
// what is given back.
std::vector<std::string> export_model(const std::string& folder, const TwoTowers& model, const TextEnds& ends,
                                      const hugging_face::FolderTexts& came = {});

}  // namespace pipeline::two_towers
