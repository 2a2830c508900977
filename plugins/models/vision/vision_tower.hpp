// The vision encoders of CLIP and SigLIP, as LLaVA uses them, and of Idefics3.
#pragma once

#include <pipeline/torch/forward.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "language/language_model.hpp"
#include "transformer/layer.hpp"

namespace pipeline::vision {

// As in the vision part of a Hugging Face config.json; the defaults are those of CLIP's ViT-B/32.
struct Config {
  std::string kind = "clip";  // or "siglip", "idefics3"
  int64_t image_size = 224;   // pixels of each side; those that are left of whole patches are not seen
  int64_t patch_size = 32;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  double layer_norm_eps = 1e-5;
  double initializer_range = 0.02;
  std::string hidden_act = "quick_gelu";  // or "gelu", "gelu_pytorch_tanh"

  bool is_clip() const { return kind == "clip"; }
  bool has_last_norm() const { return kind == "idefics3"; }
  int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  int64_t tokens() const { return patches() + (is_clip() ? 1 : 0); }  // CLIP puts a class token first
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

// A vision transformer (Dosovitskiy et al., arXiv:2010.11929) up to the last layer's output, which is what
// the language model sees: no last norm, no pooling. CLIP (Radford et al., arXiv:2103.00020) has a class
// token, a norm before the layers and no bias of the patches; SigLIP (Zhai et al., arXiv:2303.15343) has
// neither of the first two. Idefics3 (Laurençon et al., arXiv:2408.12637) has SigLIP's with its last norm, in
// a unit behind the layers, and finds a patch's position by its place along the side. Parameters carry the
// names of Hugging Face's state dict behind "vision.", but that query, key and value are one
// ("encoder.layers.0.self_attn.qkv.weight") and the patches' weight is a matrix (3 p p, C). Own unit 0 is the
// embedding, layer i is unit i + 1.
class Tower {
 public:
  Tower(const Config& config, language::ParameterPlace place);

  const Config& config() const { return config_; }
  // How many units it takes.
  uint32_t units() const {
    return 1 + static_cast<uint32_t>(config_.num_hidden_layers) + (config_.has_last_norm() ? 1 : 0);
  }

  // pixels: (B, 3, S, S) -> (B * patches, hidden_size), row by row of each picture. `in_unit` (optional) is
  // called within each unit, with its parameters, which need not be in place elsewhere.
  at::Tensor features(const at::Tensor& pixels, const ForwardPass& pass,
                      const std::function<void(const Tensors& parameters)>& in_unit = nullptr) const;
  // The same of CLIP's class token: (B, hidden_size).
  at::Tensor class_features(const at::Tensor& pixels, const ForwardPass& pass) const;
  // In place of features(), in a micro-batch without pictures; see Units::skip().
  at::Tensor skip(const ForwardPass& pass) const;

  double flops(int64_t pictures, bool with_backward) const;

 private:
  at::Tensor rows(const at::Tensor& pixels, int64_t first, int64_t count, const ForwardPass& pass,
                  const std::function<void(const Tensors& parameters)>& in_unit) const;
  at::Tensor embedded(const at::Tensor& pixels, at::ScalarType compute) const;
  bool is_trainable(uint32_t unit) const;

  Config config_;
  language::ParameterPlace place_;
  transformer::Linear patches_;
  at::Tensor class_, positions_;  // (C), (tokens, C)
  transformer::Norm first_norm_;  // CLIP's alone
  transformer::Norm last_norm_;   // Idefics3's alone
  std::vector<int64_t> places_;   // of the patches, among the positions; empty: as they are
  std::vector<transformer::Layer> layers_;
};

}  // namespace pipeline::vision
