#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/models/encoder/architecture.hpp"
#include "transformer/layer.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {

// The embedding and the layers of an encoder of any kind: a transformer over tokens, up to the last layer's
// output. Parameters carry the names of Hugging Face's state dict behind `prefix`, but that query,
// key and value are one ("esm.encoder.layer.0.attention.self.qkv.weight"), and gate and up. Own unit 0 is the
// embedding, layer i is unit i + 1.
class Encoder {
 public:
  // The registry must outlive it.
  Encoder(const Architecture& row, const Config& config, ParameterRegistry& parameters,
          std::string prefix = "", uint32_t first_unit = 0);

  uint32_t units() const { return 1 + static_cast<uint32_t>(layers_.size()); }
  const at::Tensor& words() const { return words_; }  // (tokens, C)
  const std::vector<transformer::Layer>& layers() const { return layers_; }

  // LoRA of its matrices, after all of the model's parameters were declared.
  void add_lora(const adapters::LoraConfig& lora);
  // The parameter's value with what was learnt besides it.
  at::Tensor merged(const ParameterRegistry::Declared& parameter) const {
    return adapters::merged(parameter, layers_);
  }

  // What follows the layers, where the architecture names it.
  const transformer::Norm& last_norm() const { return last_norm_; }

  // What the first layer gets: (R, C). scale: (R) fp32, what each token's embedding is multiplied by;
  // undefined: nothing.
  // types: (R) int64, rows of the table of kinds of texts; undefined: all are first ones.
  at::Tensor embedded(const at::Tensor& tokens, const at::Tensor& positions, const ForwardPass& pass,
                      const at::Tensor& scale = {}, const at::Tensor& types = {}) const;
  // What the layers share, over sequences of these lengths. positions: (R) int64, where they are rotary and
  // the architecture's own.
  transformer::LayerPass layer_pass(const transformer::Ragged& rows, const at::Tensor& positions = {}) const;
  // What the layers give at these rows, ascending, behind the last norm: (rows, C). types: see embedded().
  at::Tensor output(const transformer::PackedBatch& texts, const std::vector<int64_t>& rows,
                    const ForwardPass& pass, const at::Tensor& types = {}) const;
  // A text's last row, which stands for it: CLIP's (Radford et al., arXiv:2103.00020) is causal and a text
  // ends with a token for that; SigLIP's (Zhai et al., arXiv:2303.15343) sees all of a text, which is padded
  // to its full length. (texts, C), before the last norm.
  at::Tensor last_rows(const transformer::PackedBatch& texts, const ForwardPass& pass) const;

  // Floating-point operations of a layer's forward pass: keys and values of all rows; queries, projection and
  // MLP of `computed` rows; scores and sums of `pairs`.
  double layer_flops(double rows, double computed, double pairs) const;
  double flops(const transformer::Ragged& texts) const;  // of last_rows(), forward and backward

 private:
  void add_layer(int64_t number);
  at::Tensor with_tables(const at::Tensor& tokens, const at::Tensor& positions, const at::Tensor& types,
                         const ForwardPass& pass) const;
  transformer::Norm add_norm(const std::string& name, uint32_t unit, double epsilon, bool has_bias);
  double stream_epsilon() const { return config_.layer_norm_eps * stream_ * stream_; }

  const Architecture& row_;
  Config config_;
  ParameterRegistry& parameters_;
  std::string prefix_;
  uint32_t first_unit_;
  double stream_, lora_dropout_ = 0;
  at::Tensor words_, positions_,
      types_;  // positions_: (max_position_embeddings, C); it and types_ may be undefined
  transformer::Norm first_norm_, last_norm_;    // undefined: none
  at::Tensor frequencies_, local_frequencies_;  // of has_local_layers
  std::vector<transformer::Layer> layers_;
};

// rows: (R, C) of these texts -> their means, (texts, C) fp32.
at::Tensor text_means(const at::Tensor& rows, const transformer::Ragged& texts);

}  // namespace pipeline::encoder
