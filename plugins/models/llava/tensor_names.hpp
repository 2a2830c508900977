// Names of the tensors in folders that hold a whole model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hugging_face/weights.hpp"
#include "plugins/models/llava/vlm.hpp"

namespace pipeline::llava {

inline constexpr std::string_view kVision = "vision.", kProjector = "projector.", kLanguage = "language.";

// `name` behind a prefix that it has.
std::string after(const std::string& name, std::string_view prefix);

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
