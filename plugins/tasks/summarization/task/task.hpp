// Summarization with GPT-2: pairs of document and summary, packed end to end without padding.
#pragma once

#include <pipeline/torch/task.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/summarization/model/generate.hpp"
#include "plugins/tasks/summarization/model/gpt2.hpp"
#include "plugins/tasks/summarization/model/hugging_face.hpp"
#include "plugins/tasks/summarization/model/parameters.hpp"
#include "plugins/tasks/summarization/task/config.hpp"
#include "plugins/tasks/summarization/task/corpus.hpp"
#include "plugins/tasks/summarization/task/sequence.hpp"
#include "plugins/tasks/summarization/task/summary_scores.hpp"

namespace pipeline::summarization {

struct SummarizationBatch {
  PackedBatch packed;
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;
  uint64_t target_count = 0;

  template <class V>
  void tensors(V&& visit) {
    visit(packed.tokens);
    visit(packed.positions);
    visit(packed.targets);
  }
};

class Summarization : public TorchTask<SummarizationConfig, Gpt2, SummarizationBatch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;

  // The tokenizer, as tokenizer.json.
  std::string extra_state() override;
  void set_extra_state(std::string_view state) override;
  void prepare() override;
  void open_data() override;
  std::shared_ptr<Gpt2> build_model() override;

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  double sample_cost(Split split, uint64_t id) const override;
  std::string data_fingerprint() override;
  SummarizationBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const SummarizationBatch& batch) const override;

  void describe_parameter(Parameter& parameter) override;
  void initialize_parameter(uint64_t index, const std::string& name, at::Tensor& out) override;
  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  bool wants_autocast() const override { return false; }  // the model takes its compute dtype itself
  LossSum train_batch(const SummarizationBatch& batch, const TrainArgs& args) override;
  LossSum loss(const SummarizationBatch& batch) override;
  void evaluate(const SummarizationBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  std::vector<std::string> prediction_columns() override { return {"summary"}; }
  std::string sample_name(Split split, uint64_t id) const override;
  void predict(const SummarizationBatch& batch, const PredictionSink& sink) override;
  double flops(const SummarizationBatch& batch) override;

 private:
  void check_paths() const;  // of the files that the configuration names
  at::ScalarType compute_dtype() const { return to_torch(run().compute_dtype); }
  bool is_scored(const EvaluationSink& sink, Split split, uint64_t id) const;
  std::vector<std::string> write_summaries(Split split, const std::vector<uint64_t>& ids);
  std::string text(const TokenView& tokens) const;

  std::optional<text::ByteLevelBpe> kept_tokenizer_;  // came with the weights
  std::optional<Corpus> corpus_;
  SequenceRules rules_;
  Gpt2Config model_config_;
  std::vector<ParameterInfo> parameter_infos_;
  std::optional<HuggingFaceGpt2> imported_;
  std::optional<SummaryScores> scores_;
};

}  // namespace pipeline::summarization
