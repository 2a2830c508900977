#pragma once

#include "plugins/models/encoder/esmc.hpp"
#include "tests/models/encoder/esm2/tiny_model.hpp"

namespace pipeline::encoder::testing {

// 3 layers of 24 channels, 3 heads, no dropout.
inline EsmcConfig tiny_esmc() {
  EsmcConfig config;
  config.num_layers = 3;
  config.hidden_dim = 24;
  config.num_heads = 3;
  config.intermediate = 50;
  return config;
}

}  // namespace pipeline::encoder::testing
