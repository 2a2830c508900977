// Llama, and what the families that came after it share with it.
#pragma once

#include "language/architecture.hpp"

namespace pipeline::language {

// Fields that the classes of Llama, Mistral, Qwen and Gemma have alike; `more`: the others of one;
// `activation`: what its gate may be.
hugging_face::Fields<Config> llama_fields(hugging_face::Fields<Config> more,
                                          hugging_face::Only activation = hugging_face::only({"silu",
                                                                                              "swish"}));

}  // namespace pipeline::language
