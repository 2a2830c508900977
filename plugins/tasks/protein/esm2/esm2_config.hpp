#pragma once

#include <cstdint>

namespace pipeline::protein {

constexpr int64_t kMostWidth = 1 << 20,
                  kMostLayers = 1 << 14;  // beyond any machine, and no product of them overflows

// ESM-2 (Lin et al., "Evolutionary-scale prediction of atomic-level protein structure with a language model",
// Science 379, 2023). The defaults are those of the smallest model, 8M parameters.
struct Esm2Config {
  int64_t num_layers = 6;
  int64_t hidden_dim = 320;  // C
  int64_t num_heads = 20;
  int64_t intermediate = 0;  // of the MLP; 0: 4 C
  double hidden_dropout = 0;
  double attention_dropout = 0;
  bool token_dropout = true;  // see sequences.hpp
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;

  int64_t inner() const { return intermediate > 0 ? intermediate : 4 * hidden_dim; }
  int64_t head_width() const { return hidden_dim / num_heads; }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

}  // namespace pipeline::protein
