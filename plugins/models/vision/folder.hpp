// Hugging Face's folders of vision encoders: CLIP's and SigLIP's, whole or their vision models alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "vision/vision_tower.hpp"

namespace pipeline::vision {

// The configuration in config.json: a vision model's own, or what a CLIP, SigLIP, LLaVA or Idefics3 says of
// its part. Throws an Error that names file, key and value for what we do not compute.
Config read_config(const hugging_face::ConfigFile& file);
nlohmann::json config_json(const Config& config);

// `used`: how many of the folder's layers are computed; 0: as many as we have, or more are there.
void compare(const Config& ours, const Config& theirs, int64_t used, hugging_face::Differences& differences);

// The folder's tensors for a parameter of ours, which is called `plain` without the prefix of the model that
// it is in; theirs begin with `prefix`.
std::vector<hugging_face::Piece> pieces(const std::string& plain, const Parameter& parameter,
                                        const Config& config, const std::string& prefix);
// A tensor's name without what comes before it in the folder; nullopt for others than the encoder's. `whole`:
// of a folder in which others have names that could be the encoder's.
std::optional<std::string> plain_name(const std::string& name, bool whole);
// Whether an encoder's folder has it besides what is used: norms and poolings at its end, position numbers,
// the layers behind those of `config`.
bool is_unused(const std::string& plain, const Config& config);

}  // namespace pipeline::vision
