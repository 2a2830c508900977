#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gpt2_config.hpp"

namespace pipeline::summarization {

struct ParameterInfo {
  std::string name;  // as in Hugging Face's state dict: "transformer.h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;
  bool weight_decay;  // matrices yes; biases and norms no
  int64_t unit;  // 0: both ends, the embeddings and the final norm, since the head is wte; 1 .. n_layer: layers
};

// Every parameter, in the order in which Gpt2 registers them. Needs no model.
std::vector<ParameterInfo> parameter_list(const Gpt2Config& config);

// Writes what parameter_list(config)[index] is before training: N(0, initializer_range), for the projections
// back into the residual stream divided by sqrt(2 n_layer); norms 1, biases 0. A function of (config, seed,
// index) alone. `out`: fp32, contiguous, in host memory, of the parameter's shape.
void initial_value(const Gpt2Config& config, uint64_t seed, size_t index, at::Tensor& out);

}  // namespace pipeline::summarization
