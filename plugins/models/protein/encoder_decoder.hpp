// A masked encoder-decoder over residues, in the manner of masked autoencoders (He et al. 2022): the encoder
// sees the residues that are not masked, the decoder all of them, with a learnt vector in place of those that
// are, and predicts the amino acids at the targets. Both see the structure (of masked residues only if their
// distances are not to be predicted): per residue as local features, and between any two as biases of the
// attention (pair_bias.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/models/protein/pair_bias.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "transformer/blocks.hpp"
#include "transformer/layer.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::protein {

// Distances of masked residues, predicted as distributions over bins (a distogram: Senior et al. 2020,
// AlphaFold).

// Bin b < kDistanceBins - 1 holds CA distances from kFirstDistance + b kDistanceStep on; the last one all
// that are farther.
constexpr int64_t kDistanceBins = 32;
constexpr double kFirstDistance = 2,
                 kDistanceStep = 20.0 / (kDistanceBins - 2);  // ångström; nearer ones are in the first bin

// logits(i, j) = ((h_i W_target) * (g_j W_other)) out, with h and g the normed states of a masked residue and
// of any other one.
struct DistogramHead {
  transformer::Norm target_norm, other_norm;
  at::Tensor target, other;  // (C, D)
  transformer::Linear out;   // (D, kDistanceBins)
};

struct DistogramInputs {
  at::Tensor targets;  // (T, C) states of the masked residues
  at::Tensor others;   // (N, C) states of all residues
  at::Tensor places;   // (N, 3) CA in ångström
  at::Tensor placed;   // (N) bool: whether there is a CA
  transformer::Ragged samples;
  transformer::Ragged target_samples;  // of the T targets
  std::vector<int64_t> target_rows;    // (T) which of the N each is
  at::Tensor hidden;                   // (N) bool: whether the model was not given the place
};

// The sum over masked residues of the mean over the others of their sample of the cross-entropy, in nats:
// fp32 scalar, differentiable. Residues without CA count on neither side; of the masked ones only those whose
// place is hidden (one that is shown with another amino acid is not).
at::Tensor distogram_loss(const DistogramInputs& inputs, const DistogramHead& head);

// The model_type of the folders that it exports.
inline constexpr const char* kEncoderDecoderType = "pipeline-protein-encoder-decoder";

struct EncoderDecoderConfig {
  int64_t hidden_dim = 256;  // C
  int64_t num_encoder_layers = 3;
  int64_t num_decoder_layers = 3;
  int64_t num_heads = 8;
  int64_t feed_forward_dim = 0;  // 0: 4 C
  int64_t pair_dim = 32;         // P, width of the networks that make the attention's biases
  // Weight of the loss of masked residues' distances; 0: their coordinates are given instead.
  double distogram = 0;
  double dropout = 0.1;            // before each residual addition
  double attention_dropout = 0.0;  // of attention weights
  double initializer_range = 0.02;
  double layer_norm_epsilon = 1e-5;

  int64_t inner() const { return feed_forward_dim > 0 ? feed_forward_dim : 4 * hidden_dim; }
};

class EncoderDecoder : public ProteinModel {
 public:
  explicit EncoderDecoder(const EncoderDecoderConfig& config);

  LossSum loss(const PackedProteins& batch, const ForwardPass& pass) const override;
  Outputs outputs(const PackedProteins& batch, const ForwardPass& pass) const override;
  // Embeddings by the last layer of the decoder.
  Embeddings embeddings(const PackedProteins& batch, const ForwardPass& pass, int64_t layer) const override;
  int64_t layers() const override { return config_.num_decoder_layers; }
  int64_t width() const override { return config_.hidden_dim; }
  double flops(const PackedProteins& batch) const override;

  // A folder has config.json, which says what the model is, and model.safetensors with the parameters under
  // their own names, weights as (in, out), in fp32. Throws with all values of config.json that differ, or all
  // tensors that are missing, unexpected or of another shape.
  void import_folder(const std::filesystem::path& folder) override;
  void export_folder(const std::filesystem::path& folder) const override;

 private:
  PairNetwork make_pairs(const std::string& name, int64_t layers, uint32_t unit);
  // The last layer's output at target_rows (T, C), and its input (N, C).
  struct States {
    at::Tensor targets, all;
  };
  States body(const PackedProteins& batch, const ForwardPass& pass) const;
  at::Tensor distance_loss(const PackedProteins& batch, const at::Tensor& targets,
                           const at::Tensor& all) const;

  EncoderDecoderConfig config_;
  at::Tensor token_embedding_;                         // (kTokenCount, C)
  at::Tensor mask_embedding_;                          // (C)
  transformer::Linear encoder_local_, decoder_local_;  // (kLocalFeatures, C)
  PairNetwork encoder_pairs_, decoder_pairs_;
  std::vector<transformer::Layer> encoder_, decoder_;
  transformer::Norm encoder_norm_;
  transformer::Linear bridge_;  // (C, C)
  transformer::Norm final_norm_;
  at::Tensor head_;  // (20, C)
  std::optional<DistogramHead> distogram_;
};

}  // namespace pipeline::protein
