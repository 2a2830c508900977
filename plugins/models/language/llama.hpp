// Llama, and what the families that came after it share with it.
#pragma once

#include "language/architecture.hpp"

namespace pipeline::language {

// Fields that the classes of Llama, Mistral, Qwen and Gemma have alike; `more`: the others of one.
hugging_face::Fields<Config> llama_fields(hugging_face::Fields<Config> more);

}  // namespace pipeline::language
