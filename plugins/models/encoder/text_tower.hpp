// The text encoders of CLIP and SigLIP.
#pragma once

#include <pipeline/torch/forward.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "language/language_model.hpp"
#include "transformer/layer.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {

// As in the text part of a Hugging Face config.json; the defaults are those of CLIP's ViT-B/32.
struct TextConfig {
  int64_t vocab_size = 49408;
  int64_t max_position_embeddings = 77;  // tokens of a text at most, its end included
  int64_t hidden_size = 512;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 8;
  int64_t intermediate_size = 2048;
  double layer_norm_eps = 1e-5;
  double initializer_range = 0.02;
  std::string hidden_act = "quick_gelu";  // or "gelu", "gelu_pytorch_tanh"

  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

// A transformer over tokens up to the last layer's output at a text's last row, which stands for the text:
// CLIP's (Radford et al., arXiv:2103.00020) is causal and a text ends with a token for that; SigLIP's (Zhai
// et al., arXiv:2303.15343) sees all of a text, which is padded to its full length. Parameters carry the
// names of Hugging Face's state dict behind "text_model.", but that query, key and value are one. Own unit 0
// is the embedding, layer i is unit i + 1.
class TextTower {
 public:
  TextTower(const TextConfig& config, bool is_causal, language::ParameterPlace place);

  const TextConfig& config() const { return config_; }
  uint32_t units() const { return 1 + static_cast<uint32_t>(config_.num_hidden_layers); }

  // (texts, hidden_size), before the last norm.
  at::Tensor last_rows(const transformer::PackedBatch& texts, const ForwardPass& pass) const;

  double flops(const transformer::Ragged& texts) const;  // forward and backward

 private:
  TextConfig config_;
  bool is_causal_;
  language::ParameterPlace place_;
  at::Tensor tokens_, positions_;  // (vocab_size, C), (max_position_embeddings, C)
  std::vector<transformer::Layer> layers_;
};

// The activation by the name that config.json has for it.
transformer::Gelu gelu_named(const std::string& name);

}  // namespace pipeline::encoder
