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
#include "plugins/models/encoder/text_folder.hpp"
#include "plugins/models/encoder/token_head.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {

// BERT and its kin with the head that tells hidden tokens, as `...ForMaskedLM` of transformers. Parameters
// carry the names of its folders, but that query, key and value are one. Unit 0 is the embedding and the
// head, layer i is unit i + 1.
class MaskedEncoder {
 public:
  static constexpr bool kOwnPrecision = true;

  MaskedEncoder(const std::string& kind, const Config& config, const adapters::LoraOptions& lora = {});
  static adapters::AdaptedModel adapted(const Architecture& row, const Config& config);

  const Config& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  // Of the batch's targets. row_losses: see transformer::HeadOptions.
  LossSum loss(const transformer::PackedBatch& batch, const ForwardPass& pass,
               const at::Tensor& row_losses = {}) const;
  // (T, tokens) fp32 at the batch's targets. Not differentiable.
  at::Tensor logits(const transformer::PackedBatch& batch, const ForwardPass& pass) const;
  double flops(const transformer::PackedBatch& batch) const;  // forward and backward

  // From now on the model starts from the folder's weights; whether it has the head, which is new otherwise.
  // Ours may have fewer or more tokens at the end than the folder's configuration.
  bool import(const std::filesystem::path& folder, const EncoderFolder& theirs);
  std::string kept_weights(const std::filesystem::path& folder) const;
  // Writes what `...ForMaskedLM` loads, but for the tokenizer. See export_encoder().
  std::vector<std::string> write(const std::filesystem::path& folder,
                                 const hugging_face::FolderTexts& came) const;

 private:
  at::Tensor body(const transformer::PackedBatch& batch, const ForwardPass& pass) const;

  const Architecture& row_;
  Config config_;
  adapters::LoraOptions lora_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<Encoder> encoder_;
  TokenHead head_;
};

}  // namespace pipeline::encoder
