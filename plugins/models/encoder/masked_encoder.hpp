#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "hugging_face/token_ids.hpp"
#include "plugins/models/encoder/encoder.hpp"
#include "plugins/models/encoder/token_head.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {

// BERT and its kin with the head that tells hidden tokens, as `...ForMaskedLM` of transformers. Parameters
// carry the names of its folders, but that query, key and value are one. Unit 0 is the embedding and the
// head, layer i is unit i + 1.
class MaskedEncoder {
 public:
  static constexpr bool kOwnPrecision = true;

  MaskedEncoder(const std::string& kind, const Config& config);

  const Architecture& row() const { return row_; }
  const Config& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  // Of the batch's targets. row_losses: see transformer::HeadOptions.
  LossSum loss(const transformer::PackedBatch& batch, const ForwardPass& pass,
               const at::Tensor& row_losses = {}) const;
  // (T, tokens) fp32 at the batch's targets. Not differentiable.
  at::Tensor logits(const transformer::PackedBatch& batch, const ForwardPass& pass) const;
  double flops(const transformer::PackedBatch& batch) const;  // forward and backward

 private:
  at::Tensor body(const transformer::PackedBatch& batch, const ForwardPass& pass) const;

  const Architecture& row_;
  Config config_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<Encoder> encoder_;
  TokenHead head_;
};

// What an encoder's folder says: its kind, and its configuration.
struct EncoderFolder {
  std::string kind;
  Config config;
};
EncoderFolder read_encoder_folder(const std::filesystem::path& folder);

// From now on the model starts from the folder's weights; the head is new where the folder has none, which
// `has_head` tells. Ours may have fewer or more tokens at the end. Gives back the folder's configuration.
Config import_masked(const std::filesystem::path& folder, MaskedEncoder& model, bool& has_head);
std::string kept_weights(const std::filesystem::path& folder, const MaskedEncoder& model);
// Writes what `...ForMaskedLM` loads, but for the tokenizer. `came`: see language::export_model(), also for
// what is given back.
std::vector<std::string> export_masked(const std::filesystem::path& folder, const MaskedEncoder& model,
                                       const hugging_face::FolderTexts& came);

// The config.json of this encoder where it came with this one, or null.
nlohmann::ordered_json kept_config(const Architecture& row, const Config& config,
                                   const nlohmann::ordered_json& came);

}  // namespace pipeline::encoder
