// A masked encoder-decoder over residues, in the manner of masked autoencoders (He et al. 2022): the encoder sees the residues that are
// not masked, the decoder all of them, with a learnt vector in place of those that are, and predicts the amino acids at the targets.
// Both see the structure (of masked residues only if their distances are not to be predicted): per residue as local features, and between any two as biases of the attention (pair_bias.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/protein/model/distogram.hpp"
#include "plugins/tasks/protein/model/encoder_decoder_config.hpp"
#include "plugins/tasks/protein/model/encoder_decoder_folder.hpp"
#include "plugins/tasks/protein/model/pair_bias.hpp"
#include "plugins/tasks/protein/model/protein_model.hpp"
#include "transformer/attention.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::protein {

class EncoderDecoder : public ProteinModel {
 public:
  explicit EncoderDecoder(const EncoderDecoderConfig& config);

  transformer::Loss loss(const PackedBatch& batch, const ForwardOptions& options) override;
  Outputs outputs(const PackedBatch& batch, at::ScalarType compute) override;
  double flops(const PackedBatch& batch) const override;
  bool is_layer(uint32_t unit) const override { return unit > 0 && unit != static_cast<uint32_t>(config_.num_encoder_layers) + 1; }

  void import_folder(const std::filesystem::path& folder) override;
  bool has_imported() const override { return folder_ != nullptr; }
  void imported(size_t index, at::Tensor& out) override;
  void export_folder(const std::filesystem::path& folder) const override;

 private:
  struct Layer {
    transformer::Norm attention_norm;
    transformer::Linear qkv, projection;
    transformer::Norm mlp_norm;
    transformer::Linear up, down;
  };
  Layer make_layer(const std::string& name, uint32_t unit);
  PairNetwork make_pairs(const std::string& name, int64_t layers, uint32_t unit);
  // The last layer's output at target_rows (T, C), and its input (N, C).
  struct States {
    at::Tensor targets, all;
  };
  States body(const PackedBatch& batch, const ForwardOptions& options) const;
  at::Tensor distance_loss(const PackedBatch& batch, const at::Tensor& targets, const at::Tensor& all) const;
  at::Tensor run_layer(const Layer& layer, int64_t number, const at::Tensor& x, const at::Tensor& bias, const transformer::AttentionLayout& layout,
                       const at::Tensor& rows, const ForwardOptions& options) const;

  EncoderDecoderConfig config_;
  at::Tensor token_embedding_;  // (kTokenCount, C)
  at::Tensor mask_embedding_;   // (C)
  transformer::Linear encoder_local_, decoder_local_;  // (kLocalFeatures, C)
  PairNetwork encoder_pairs_, decoder_pairs_;
  std::vector<Layer> encoder_, decoder_;
  transformer::Norm encoder_norm_;
  transformer::Linear bridge_;  // (C, C)
  transformer::Norm final_norm_;
  at::Tensor head_;  // (20, C)
  std::optional<DistogramHead> distogram_;
  std::unique_ptr<EncoderDecoderFolder> folder_;
};

}  // namespace pipeline::protein
