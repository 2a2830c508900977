#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <string>

#include "plugins/tasks/protein/model/encoder_decoder_config.hpp"

namespace pipeline::protein {

// A folder with an encoder-decoder: config.json, which says what the model is, and model.safetensors with its
// parameters under their own names, weights as (in, out), in fp32.

// The parameters start as those of the folder. Throws with all values of config.json that differ, or all
// tensors that are missing, unexpected or of another shape.
void import_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config,
                            ParameterRegistry& parameters);

void export_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config,
                            const ParameterRegistry& parameters);

}  // namespace pipeline::protein
