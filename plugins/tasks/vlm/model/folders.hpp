// Hugging Face's folders of the parts and of the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "adapters/peft_folder.hpp"
#include "plugins/tasks/vlm/model/vlm.hpp"

namespace pipeline::vlm {

// The vision encoder starts as that of a folder of CLIP, SigLIP, their vision models, or LLaVA. The folder
// may have more layers than the model: LLaVA does not use CLIP's last, nor any norm or pooling behind it.
// Throws Error (PL_ERROR_CONFIG), one for all values that differ, one for all tensors that do not fit.
void import_vision(const std::string& folder, Vlm& model);

// The language model starts as that of a folder of its own or of LLaVA. How many tokens ours has behind the
// folder's is given back, below 0 where the folder has more; see language::import_model().
int64_t import_language(const std::string& folder, Vlm& model);

// What the folders of the parts say of them. Throw Error for what we do not compute.
vision::Config read_vision_folder(const std::string& folder);
language::Config read_language_folder(const std::string& folder);
// The token that stands for a picture in a folder of LLaVA, and what config.json calls it.
std::pair<const char*, int64_t> read_image_token(const std::string& folder);

// Whether pictures are padded to squares there, as LLaVA's own code does it: "image_aspect_ratio" of
// config.json.
bool pads_pictures(const std::string& folder);

// The model of a folder of LLaVA. Throws Error for what we do not compute.
VlmConfig read_llava_config(const std::string& folder);

// Everything starts as in such a folder; gives back what import_language() does.
int64_t import_llava(const std::string& folder, Vlm& model);

// Whether a folder's config.json says that it is LLaVA's, LLaVA-NeXT's, Idefics3's or SmolVLM's.
bool is_llava(const std::string& folder);

// What transformers loads as LlavaForConditionalGeneration, or with grids as
// LlavaNextForConditionalGeneration. `image_token` stands for a patch there; without, it is one more than our
// vocabulary has, at its end. Throws Error where the language model is a GPT-2: transformers cannot give one
// a picture.
// With Idefics3's vision encoder as Idefics3ForConditionalGeneration or, `is_smol`,
// SmolVLMForConditionalGeneration.
void export_llava(const std::string& folder, const Vlm& model, std::optional<int64_t> image_token = {},
                  bool is_smol = false);

// As PEFT's adapters of LLaVA are: additions to the language model, and what else is trained.
adapters::AdaptedModel adapted_llava(const language::Config& language, const vision::Config& vision);

// The language model alone; see language::export_model().
void export_language(const std::string& folder, const Vlm& model, const std::string& source = {});

}  // namespace pipeline::vlm
