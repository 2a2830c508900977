// Labels of texts: a language model or an encoder learns a class, several, or a number of each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/labels/config.hpp"
#include "plugins/tasks/labels/data.hpp"
#include "plugins/tasks/labels/model.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::labels {

struct LabelsBatch {
  language::PackedBatch packed;  // target_rows: the last of each text, or of each word with a tag
  std::vector<size_t> rows;      // how many of these each text has
  // What is right, see heads::row_losses(); undefined in predictions.
  at::Tensor right;
  at::Tensor types;  // of an encoder: (rows) int64, 1 for a text that follows another
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;
  std::vector<size_t> sources;  // of each sample, where training has several

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
    if (right.defined()) visit(right);
    if (types.defined()) visit(types);
  }
};

class Labels : public common::TokenizerTask<TorchTask<LabelsConfig, LabelModel, LabelsBatch>> {
  using Base = TokenizerTask;

 public:
  using Base::Base;

  // The tokenizer, behind what was learnt of the labels.
  std::string extra_state() override;
  void set_extra_state(std::string_view state) override;

  void prepare() override { open_corpus(); }
  void open_data() override;
  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  double sample_cost(Split split, uint64_t id) const override {
    return static_cast<double>(framed(corpus_->sample(split, id)).tokens.size());
  }
  std::string sample_name(Split split, uint64_t id) const override {
    return name_of(corpus_->sample(split, id));
  }
  std::string data_fingerprint() override { return corpus_->fingerprint(); }
  LabelsBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const LabelsBatch& batch) const override {
    return common::info_of(batch.packed, static_cast<double>(batch.packed.target_rows.size()),
                           batch.ids.size());
  }

  std::shared_ptr<LabelModel> build_model() override;
  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;
  double flops(const LabelsBatch& batch) override { return model().flops(batch.packed); }

  LossSum loss(const LabelsBatch& batch) override;
  std::vector<Metric> metrics() override;
  void evaluate(const LabelsBatch& batch, EvaluationSink& sink) override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override;
  void predict(const LabelsBatch& batch, const PredictionSink& sink) override;

 private:
  void open_corpus();
  records::PairSource source_of(const sources::SourceFiles& files, Split split,
                                const files::SplitPart& part) const;
  Reader reader() const;
  // The classes, or the scale of numbers, of the data or of what the model has learnt already.
  void learn_scale();
  records::LabelCounts training_counts() const;
  void require_classes(const records::LabelCounts& counts) const;
  // Classes of a split that the model does not have, for people; empty: there are none.
  std::string unknown_in(Split split) const;
  // The classes in a label, as it names them.
  std::vector<std::string> names_in(const std::string& label) const;
  Frame frame() const;
  Framed framed(const TokenSample& sample) const {
    return labels::framed(sample, frame(), config().sequence.max_tokens);
  }
  at::Tensor balanced(const records::LabelCounts& counts) const;
  std::string required_label(const TokenSample& sample) const;
  at::Tensor right_of(const std::vector<std::string>& labels) const;
  // The words of a text, or itself.
  std::vector<std::string> words_of(const TokenSample& sample) const;
  // The labels of its rows; of words that have none, texts that stand for none.
  std::vector<std::string> labels_of(const TokenSample& sample) const;
  // What the model says of each row, in host memory: (rows, outputs). losses: (optional) receives those of
  // the rows, float64, for a batch that has what is right.
  at::Tensor told(const LabelsBatch& batch, at::Tensor* losses = nullptr);
  std::string written_label(const TokenSample& sample) const;
  // The prediction in a table, and the probability of each class.
  std::vector<std::string> prediction_fields(std::span<const float> told) const;

  std::optional<text::Corpus> corpus_;
  std::optional<records::LabelScale> scale_;  // from the weights, or the training data
  ClassNames names_;                          // of the classes
  heads::LabelForm form_;
  at::Tensor weights_;  // of the classes in training; undefined: they are alike
};

}  // namespace pipeline::tasks::labels
