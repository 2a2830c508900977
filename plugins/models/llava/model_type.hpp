// The kinds of folders that hold a whole model, by what their config.json calls them.
#pragma once

#include <string_view>

#include "language/architecture.hpp"

namespace pipeline::llava {

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

}  // namespace pipeline::llava
