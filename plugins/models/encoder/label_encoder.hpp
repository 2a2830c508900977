#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "hugging_face/token_ids.hpp"
#include "plugins/models/encoder/encoder.hpp"
#include "plugins/models/encoder/text_folder.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::encoder {

// BERT and its kin with a head for labels (Config::label) as transformers has them. Of texts, from a text's
// first row, `...ForSequenceClassification`: BERT's and DistilBERT's are
//
//   classifier(f(dense(x))),  tanh and "pooler.dense", or ReLU and "pre_classifier",
//
// RoBERTa's classifier.out_proj(tanh(classifier.dense(x))), and ModernBERT's classifier(head.norm(gelu(
// head.dense(x)))), from the first row or the mean of all. Of words `...ForTokenClassification`,
// classifier(x), ModernBERT's with its head as of texts. Parameters carry the names of its folders, but that
// query, key and value are one. Unit 0 is the embedding and the head, layer i is unit i + 1.
class LabelEncoder {
 public:
  LabelEncoder(const std::string& kind, const Config& config, const adapters::LoraOptions& lora = {});
  static adapters::AdaptedModel adapted(const Architecture& row, const Config& config);

  const Architecture& row() const { return row_; }
  const Config& config() const { return config_; }
  ParameterRegistry& parameters() { return *registry_; }
  const ParameterRegistry& parameters() const { return *registry_; }

  // What `then` makes of what the head gives at the batch's target rows, (T, label->outputs()) fp32. types:
  // (rows) int64, 1 for a text that follows another. Differentiable.
  at::Tensor with_labels(const transformer::PackedBatch& batch, const at::Tensor& types,
                         const ForwardPass& pass,
                         const std::function<at::Tensor(const at::Tensor& outputs)>& then) const;
  double flops(const transformer::PackedBatch& batch) const;  // forward and backward

  // See MaskedEncoder. A folder with such a head has the whole of it; another may have a pooler. Gives the
  // parts that are new.
  std::vector<std::string> import(const std::filesystem::path& folder, const EncoderFolder& theirs);
  std::string kept_weights(const std::filesystem::path& folder) const;
  std::vector<std::string> write(const std::filesystem::path& folder,
                                 const hugging_face::FolderTexts& came) const;

 private:
  const Architecture& row_;
  Config config_;
  adapters::LoraOptions lora_;
  std::shared_ptr<ParameterRegistry> registry_ = std::make_shared<ParameterRegistry>();
  std::optional<Encoder> encoder_;
  transformer::Linear dense_, out_;
  transformer::Norm norm_;  // undefined: none
};

}  // namespace pipeline::encoder
