#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/safetensors/folder.hpp"
#include "plugins/tasks/protein/model/encoder_decoder_config.hpp"
#include "plugins/tasks/protein/model/parameters.hpp"

namespace pipeline::protein {

// A folder with an encoder-decoder: config.json, which says what the model is, and model.safetensors with its parameters under their own
// names, weights as (in, out), in fp32. Const and safe for any thread.
class EncoderDecoderFolder {
 public:
  // Throws std::runtime_error: one that lists all missing, unexpected and mis-shaped tensors, or all values of config.json that differ.
  EncoderDecoderFolder(const std::string& path, const EncoderDecoderConfig& config, const Parameters& parameters);

  void read(size_t index, at::Tensor& out) const;

 private:
  safetensors::Folder files_;
  std::vector<const safetensors::TensorView*> views_;  // of each parameter
};

void write_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config, const Parameters& parameters);

}  // namespace pipeline::protein
