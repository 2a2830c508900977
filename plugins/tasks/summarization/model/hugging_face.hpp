#pragma once

#include <string>

#include "gpt2.hpp"

namespace pipeline::summarization {

// Hugging Face's folder of a GPT2LMHeadModel: config.json and model.safetensors, sharded or not, fp32, fp16,
// bf16 or fp64, names with or without "transformer.".

// Throws an Error that names file, key and value where the model is not the GPT-2 that we compute: another
// architecture, activation, or scaling of attention.
Gpt2Config read_gpt2_config(const std::string& path);

// The model's parameters start as those of the folder; its configuration is given back. Throws unless the
// folder holds this model: one error for all values of the configuration that differ, one for all tensors
// that are missing, unexpected or of another shape. Mask buffers (attn.bias) are passed over, and
// lm_head.weight must equal wte.weight.
Gpt2Config import_gpt2(const std::string& folder, Gpt2& model);

// Writes config.json, generation_config.json and model.safetensors (fp32) that transformers loads. The folder
// must exist.
void export_gpt2(const std::string& folder, const Gpt2& model);

}  // namespace pipeline::summarization
