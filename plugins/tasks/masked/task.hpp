// Masked-language training, from random weights or on from those of a folder: an encoder tells hidden tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/models/encoder/masked_encoder.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/masked/config.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::masked {

struct MaskedBatch {
  transformer::PackedBatch packed;  // targets: the tokens that are hidden; in predictions anything
  std::vector<uint64_t> ids;
  std::vector<size_t> sources;  // of each sample, where training has several

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
  }
};

class Masked : public common::TokenizerTask<TorchTask<MaskedConfig, encoder::MaskedEncoder, MaskedBatch>> {
 public:
  using TokenizerTask::TokenizerTask;

  void prepare() override { open_corpus(); }
  void open_data() override;
  std::shared_ptr<encoder::MaskedEncoder> build_model() override;

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  double sample_cost(Split split, uint64_t id) const override {
    return static_cast<double>(corpus_->sample(split, id).parts.at(1).size());
  }
  std::string sample_name(Split split, uint64_t id) const override {
    return std::string(corpus_->sample(split, id).beside);
  }
  std::string data_fingerprint() override { return corpus_->fingerprint(); }
  MaskedBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const MaskedBatch& batch) const override {
    return common::info_of(batch.packed, static_cast<double>(batch.packed.target_rows.size()),
                           batch.ids.size());
  }

  LossSum loss(const MaskedBatch& batch) override;
  std::vector<Metric> metrics() override;
  void evaluate(const MaskedBatch& batch, EvaluationSink& sink) override;
  std::vector<std::string> prediction_columns() override { return {"text", "filled", "probabilities"}; }
  void predict(const MaskedBatch& batch, const PredictionSink& sink) override;
  double flops(const MaskedBatch& batch) override { return model().flops(batch.packed); }

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

 private:
  void open_corpus();
  int32_t mask_token() const;
  // Hides some of the tokens; what they were, or -1.
  std::vector<int64_t> hide(std::vector<int64_t>& tokens, uint64_t seed) const;
  std::optional<int32_t> begin() const { return tokenizer()->adds_bos() ? tokenizer()->bos() : std::nullopt; }

  std::optional<text::Corpus> corpus_;
};

}  // namespace pipeline::tasks::masked
