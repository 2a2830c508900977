// How pictures are prepared, as the configuration says it.
#pragma once

#include <string>

#include "plugins/tasks/vlm/config.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::tasks::vlm {

// Whether the files of the model's folder are SmolVLM's, which is an Idefics3 by another name.
bool is_smol(const tokenizer::Files& carried);

// preprocessor_config.json and processor_config.json, with which transformers makes the same pixels, and as
// many tokens of them: those that were `carried` from the model's folder, with the configuration's values
// where these differ; `is_whole`: that folder is of the whole model, and has all that it needs.
// The second needs a token that stands for a picture; empty: there is none.
tokenizer::Files processor_files(const VisionOptions& options, int64_t scale_factor,
                                 const tokenizer::Files& carried, const std::string& image_token,
                                 bool is_whole);

}  // namespace pipeline::tasks::vlm
