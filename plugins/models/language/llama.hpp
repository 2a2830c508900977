// Llama, and what the families that came after it share with it.
#pragma once

#include "language/architecture.hpp"

namespace pipeline::language {

// Fields that LlamaConfig, MistralConfig, Qwen2Config and Qwen3Config have alike; `more`: the others of one.
hugging_face::Fields<Config> llama_fields(hugging_face::Fields<Config> more);

}  // namespace pipeline::language
