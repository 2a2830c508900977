// The vision encoders of CLIP, SigLIP, SigLIP 2's NaFlex and DINOv2, as LLaVA uses them, and of Idefics3.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>

#include "hugging_face/config_fields.hpp"
#include "language/language_model.hpp"
#include "transformer/layer.hpp"

namespace pipeline::vision {

// Patches of a picture, row by row.
struct PatchGrid {
  int64_t rows = 0, columns = 0;

  int64_t patches() const { return rows * columns; }
  bool operator==(const PatchGrid&) const = default;
};

// How torch.nn.functional.interpolate() is done, without aligned corners; but where the result is one column
// wide, torch 2.11 on a CPU gives all rows what the first has, with antialias.
enum class Interpolation : uint8_t {
  kBicubic,        // DINOv2
  kSmoothBicubic,  // with antialias: DINOv2 with registers
  kSmoothBilinear  // with antialias: SigLIP 2's NaFlex
};

// positions (side * side, C), row by row -> (rows * columns, C), themselves where nothing changes. They are
// products of matrices, whose gradients are the same on every device and in every run.
at::Tensor fitted(const at::Tensor& positions, const PatchGrid& grid, Interpolation how);

// The vision part of a Hugging Face config.json; the defaults are those of CLIP's ViT-B/32.
struct Config {
  std::string kind = "clip";  // or "siglip", "idefics3", "siglip2" (NaFlex), "dinov2"
  // Pixels of each side of the square that there are positions for; those that are left of whole patches are
  // not seen.
  int64_t image_size = 224;
  int64_t crop_size = 0;  // DINOv2's: of the square that is seen, if that is another
  int64_t patch_size = 32;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  int64_t num_register_tokens = 0;  // DINOv2's, between class token and patches
  double layer_norm_eps = 1e-5;
  double initializer_range = 0.02;
  std::string hidden_act = "quick_gelu";  // or "gelu", "gelu_pytorch_tanh"

  bool is_clip() const { return kind == "clip"; }
  bool has_last_norm() const { return kind == "idefics3"; }
  // Pictures keep their shape: a square is a patch, and a picture a grid of them.
  bool is_flexible() const { return kind == "siglip2"; }
  bool is_dino() const { return kind == "dinov2"; }
  bool has_class() const { return is_clip() || is_dino(); }
  // Pixels of a side of the squares that the encoder is given, and patches along it.
  int64_t square() const { return is_flexible() ? patch_size : crop_size > 0 ? crop_size : image_size; }
  int64_t side() const { return square() / patch_size; }
  int64_t patches() const { return side() * side(); }
  // Rows of features of a square: LLaVA leaves out the class token alone.
  int64_t rows() const { return num_register_tokens + patches(); }
  int64_t tokens() const { return rows() + (has_class() ? 1 : 0); }
  int64_t positions() const {
    return image_size / patch_size * (image_size / patch_size) + (has_class() ? 1 : 0);
  }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

// What all kinds have, by the names that options have, in the order in which they are listed.
const hugging_face::ModelFields<Config>& model_fields();

// A vision transformer (Dosovitskiy et al., arXiv:2010.11929) up to the last layer's output, which is what
// the language model sees: no last norm, no pooling. CLIP (Radford et al., arXiv:2103.00020) has a class
// token, a norm before the layers and no bias of the patches; SigLIP (Zhai et al., arXiv:2303.15343) has
// neither of the first two. Idefics3 (Laurençon et al., arXiv:2408.12637) has SigLIP's with its last norm, in
// a unit behind the layers, and finds a patch's position by its place along the side. NaFlex (Tschannen et
// al., arXiv:2502.14786) has SigLIP's with positions that are fitted to each picture's grid of patches.
// DINOv2 (Oquab et al., arXiv:2304.07193) has a class token and, with registers (Darcet et al.,
// arXiv:2309.16588), more such tokens, and scales what layers add. Parameters carry the names of Hugging
// Face's state dict of CLIP behind "vision.", but that query, key and value are one
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

  using InUnit = std::function<void(const Tensors& parameters)>;
  // pixels: (B, 3, S, S) -> (B * rows, hidden_size), row by row of each square. In NaFlex the squares are the
  // patches of pictures with these `grids`, which others do not have. `in_unit` (optional) is called within
  // each unit, with its parameters, which need not be in place elsewhere.
  at::Tensor features(const at::Tensor& pixels, const ForwardPass& pass,
                      const std::vector<PatchGrid>& grids = {}, const InUnit& in_unit = nullptr) const;
  // CLIP's class token in place of the patches: (B, hidden_size).
  at::Tensor class_features(const at::Tensor& pixels, const ForwardPass& pass) const;
  // In place of features(), in a micro-batch without pictures; see Units::skip().
  at::Tensor skip(const ForwardPass& pass) const;

  // Floating-point operations for so many squares.
  double flops(int64_t squares, const std::vector<PatchGrid>& grids, bool with_backward) const;

 private:
  struct Wanted {
    int64_t first, count;  // of each picture's tokens; -1: all others
  };
  std::vector<int64_t> tokens_of(int64_t squares, const std::vector<PatchGrid>& grids) const;
  at::Tensor rows(const at::Tensor& pixels, const std::vector<PatchGrid>& grids, const Wanted& which,
                  const ForwardPass& pass, const InUnit& in_unit) const;
  at::Tensor places(int64_t squares, const std::vector<PatchGrid>& grids) const;
  at::Tensor embedded(const at::Tensor& pixels, const std::vector<PatchGrid>& grids,
                      at::ScalarType compute) const;
  bool is_trainable(uint32_t unit) const;

  Config config_;
  language::ParameterPlace place_;
  transformer::Linear patches_;
  at::Tensor class_, registers_, positions_;  // (C), (registers, C), (positions, C)
  transformer::Norm first_norm_;              // CLIP's alone
  transformer::Norm last_norm_;               // Idefics3's alone
  std::vector<int64_t> places_;               // of the patches, among the positions; empty: as they are
  std::vector<transformer::Layer> layers_;
};

}  // namespace pipeline::vision
