// Summarization with GPT-2: pairs of document and summary, packed end to end without padding.
#pragma once

#include <pipeline/torch/task.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/summarization/config.hpp"
#include "plugins/tasks/summarization/corpus.hpp"
#include "plugins/tasks/summarization/sequence.hpp"

namespace pipeline::tasks::summarization {

using language::LanguageModel;
using language::PackedBatch;

struct SummarizationBatch {
  PackedBatch packed;
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;
  std::vector<size_t> sources;  // of each, where training has several

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
  }
};

class Summarization : public TorchTask<SummarizationConfig, LanguageModel, SummarizationBatch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;

  // The tokenizer.
  std::string extra_state() override;
  void set_extra_state(std::string_view state) override;
  void prepare() override;
  void open_data() override;
  std::shared_ptr<LanguageModel> build_model() override;

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  double sample_cost(Split split, uint64_t id) const override;
  std::string data_fingerprint() override;
  SummarizationBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const SummarizationBatch& batch) const override;

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  LossSum loss(const SummarizationBatch& batch) override {
    return common::loss_with_metrics(
        context(), batch.packed, config().loss.of(pass()), batch.sources,
        [&] { return corpus_->training().names(); },
        [&](const language::LossDetails& details) { return model().loss(batch.packed, pass(), details); });
  }
  void evaluate(const SummarizationBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  std::vector<std::string> prediction_columns() override { return {"summary"}; }
  std::string sample_name(Split split, uint64_t id) const override;
  void predict(const SummarizationBatch& batch, const PredictionSink& sink) override;
  double flops(const SummarizationBatch& batch) override { return model().flops(batch.packed); }

 private:
  void warn_of_scripts() const;  // that ROUGE does not see
  void check_paths() const;      // of the files that the configuration names
  bool is_scored(const EvaluationSink& sink, Split split, uint64_t id) const;
  std::vector<std::string> write_summaries(Split split, Purpose purpose, const std::vector<uint64_t>& ids);
  std::string text(const TokenView& tokens) const;
  hugging_face::OwnTokens own_tokens() const;

  tokenizer::TokenizerPtr kept_tokenizer_;  // came with the weights
  std::optional<Corpus> corpus_;
  SequenceRules rules_;
  std::vector<int64_t> ends_;  // of what is generated
};

}  // namespace pipeline::tasks::summarization
