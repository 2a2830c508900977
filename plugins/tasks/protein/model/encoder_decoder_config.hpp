#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <string>

namespace pipeline::protein {

struct EncoderDecoderConfig {
  int64_t hidden_dim = 256;  // C
  int64_t num_encoder_layers = 3;
  int64_t num_decoder_layers = 3;
  int64_t num_heads = 8;
  int64_t feed_forward_dim = 0;  // 0: 4 C
  int64_t pair_dim = 32;         // P, width of the networks that make the attention's biases
  double distogram =
      0;  // weight of the loss of masked residues' distances; 0: their coordinates are given instead
  double dropout = 0.1;            // before each residual addition
  double attention_dropout = 0.0;  // of attention weights
  double initializer_range = 0.02;
  double layer_norm_epsilon = 1e-5;

  int64_t inner() const { return feed_forward_dim > 0 ? feed_forward_dim : 4 * hidden_dim; }
};

// A folder with an encoder-decoder: config.json, which says what the model is, and model.safetensors with its
// parameters under their own names, weights as (in, out), in fp32.

// The parameters start as those of the folder. Throws with all values of config.json that differ, or all
// tensors that are missing, unexpected or of another shape.
void import_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config,
                            ParameterRegistry& parameters);

void export_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config,
                            const ParameterRegistry& parameters);

}  // namespace pipeline::protein
