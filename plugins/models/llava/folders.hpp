// Hugging Face's folders of the parts and of the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/peft_folder.hpp"
#include "hugging_face/export_form.hpp"
#include "hugging_face/weights.hpp"
#include "language/architecture.hpp"
#include "plugins/models/llava/vlm.hpp"

namespace pipeline::llava {

// The vision encoder starts as that of a folder of CLIP, SigLIP, their vision models, or LLaVA. The folder
// may have more layers than the model: LLaVA does not use CLIP's last, nor any norm or pooling behind it.
// Throws Error (PL_ERROR_CONFIG), one for all values that differ, one for all tensors that do not fit.
void import_vision(const std::string& folder, Vlm& model);

// The language model starts as that of a folder of its own or of LLaVA. How many tokens ours has behind the
// folder's is given back, below 0 where the folder has more; see language::import_model().
int64_t import_language(const std::string& folder, Vlm& model);

// The configurations in the folders of the parts. They throw Error for what we do not compute.
vision::Config read_vision_folder(const std::string& folder);
language::Config read_language_folder(const std::string& folder);
// The token that stands for a picture in a LLaVA's config.json, and what it is called there.
std::pair<const char*, int64_t> read_image_token(const hugging_face::ConfigFile& file);

// Whether pictures are padded to squares there, as LLaVA's own code does it: "image_aspect_ratio" of
// config.json.
bool pads_pictures(const std::string& folder);

// The model of a folder of LLaVA, or of its config.json. Throws Error for what we do not compute.
VlmConfig read_llava_config(const std::string& folder);
VlmConfig read_llava_config(const hugging_face::ConfigFile& file);

// Everything starts as in such a folder; gives back what import_language() does.
int64_t import_llava(const std::string& folder, Vlm& model);

// Whether a folder's config.json says that it is LLaVA's, LLaVA-NeXT's, Idefics3's or SmolVLM's.
bool is_llava(const std::string& folder);

// What is kept of such a folder's weights for an export, and of the language model's; see
// hugging_face::kept_weights().
std::string kept_llava(const std::string& folder, const Vlm& model);
std::string kept_language(const std::string& folder, const Vlm& model);
// These texts, where they are of a LLaVA that the whole model may have come from; else none.
hugging_face::Came came_as_llava(const VlmConfig& config, const hugging_face::FolderTexts& texts);
// Texts of a LLaVA's folder as they would be in one of its language model alone; others stay as they are.
hugging_face::FolderTexts language_part(hugging_face::FolderTexts texts);

// Writes what transformers loads as LlavaForConditionalGeneration, or with grids as
// LlavaNextForConditionalGeneration. `image_token` stands for a patch there; without, it is one more than our
// vocabulary has, at its end. Throws Error where the language model is a GPT-2: transformers cannot give one
// a picture. With Idefics3's vision encoder as Idefics3ForConditionalGeneration or, `is_smol`,
// SmolVLMForConditionalGeneration. `came`: see language::export_model(), also for what is given back.
std::vector<std::string> export_llava(const std::string& folder, const Vlm& model,
                                      std::optional<int64_t> image_token = {}, bool is_smol = false,
                                      const hugging_face::FolderTexts& came = {});

// What PEFT's adapters of LLaVA have: LoRA of the language model, and what else is trained.
adapters::AdaptedModel adapted_llava(const language::Config& language, const vision::Config& vision);

// The language model alone; see language::export_model().
std::vector<std::string> export_language(const std::string& folder, const Vlm& model,
                                         const hugging_face::FolderTexts& came = {});

inline constexpr const char *kLlava = "llava", *kNext = "llava_next", *kIdefics = "idefics3",
                            *kSmol = "smolvlm";

// SmolVLM is an Idefics3 by another name.
inline bool is_idefics(std::string_view type) { return type == kIdefics || type == kSmol; }

// transformers gives pictures to models whose positions are rotary alone; and scales embeddings of tokens
// alone, where we scale all.
inline bool takes_pictures(const language::Config& config) {
  const language::Architecture& row = language::architecture(config.architecture);
  return row.is_rotary && !row.is_embedding_scaled;
}

inline constexpr std::string_view kVision = "vision.", kProjector = "projector.", kLanguage = "language.";

using hugging_face::after;

// What the names of a vision encoder's tensors begin with in LLaVA's old names.
std::string tower_prefix(const vision::Config& vision);

// The name that a tensor of LLaVA's had before transformers 4.52, since which all but the head begin with
// "model."; takes today's names, and Idefics3's.
std::string old_name(const std::string& name);
// The names for old ones: LLaVA's of today, and Idefics3's.
std::string new_name(const std::string& name);
std::string idefics_name(const std::string& name);

// A parameter's tensors by LLaVA's old names. more_tokens: see language::pieces().
std::vector<hugging_face::Piece> llava_pieces(const Parameter& parameter, const language::Config& language,
                                              const vision::Config& vision, int64_t more_tokens);

// The whole model's tensors; to be written, an Idefics3's by its own names.
hugging_face::NameMap llava_map(const Vlm& model, int64_t more_tokens, bool by_own_names = false);

}  // namespace pipeline::llava
