// Hugging Face's folders of whole CLIP and SigLIP models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plugins/tasks/contrastive/model/two_towers.hpp"

namespace pipeline::contrastive {

// What config.json says. Throws an Error that names file, key and value for what we do not compute.
TwoTowersConfig read_config(const std::string& folder);

// From now on the model starts from the folder's weights. Ours may have fewer or more tokens than the folder
// at the end, as with language models; returns by how many more.
int64_t import_model(const std::string& folder, TwoTowers& model);

// The numbers of the tokens that a text begins with, if any, and ends with, and that it is padded with.
struct TextEnds {
  std::optional<int64_t> begin;
  int64_t end = 0, padding = 0;
};

// For CLIPModel or SiglipModel. The folder must exist.
void export_model(const std::string& folder, const TwoTowers& model, const TextEnds& ends);

}  // namespace pipeline::contrastive
