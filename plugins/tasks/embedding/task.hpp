// Texts become vectors: what belongs together is near.
#pragma once

#include <pipeline/torch/global_loss.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/models/sentence_encoder/folder.hpp"
#include "plugins/models/sentence_encoder/losses.hpp"
#include "plugins/models/sentence_encoder/sentence_encoder.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/common/vector_files.hpp"
#include "plugins/tasks/embedding/config.hpp"
#include "plugins/tasks/embedding/data.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::embedding {

struct EmbeddingBatch {
  transformer::PackedBatch texts;  // of all samples, one after another
  std::vector<size_t> counts;      // texts of each sample: its first, then a positive, then negatives
  std::vector<Hash128> keys;       // of each text; equal ones are one
  at::Tensor columns;              // (texts, kTextKey) the same, for the loss
  std::vector<float> scores;       // of similarity, one a sample
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;

  // Samples that have a text beside the first.
  size_t pairs() const {
    return static_cast<size_t>(std::ranges::count_if(counts, [](size_t count) { return count > 1; }));
  }
  template <class V>
  void tensors(V&& visit) {
    texts.tensors(visit);
    visit(columns);
  }
};

class Embedding : public common::TokenizerTask<
                      GlobalLossTask<EmbeddingConfig, sentence_encoder::SentenceEncoder, EmbeddingBatch>> {
  using Base = TokenizerTask;

 public:
  using Base::Base;

  void prepare() override { open_corpus(); }
  void open_data() override;
  std::shared_ptr<sentence_encoder::SentenceEncoder> build_model() override;

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  double sample_cost(Split split, uint64_t id) const override;
  std::string sample_name(Split split, uint64_t id) const override {
    return facts_of(corpus_->sample(split, id)).name;
  }
  std::string data_fingerprint() override { return corpus_->fingerprint(); }
  EmbeddingBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const EmbeddingBatch& batch) const override {
    return common::info_of(batch.texts, static_cast<double>(batch.pairs()), batch.ids.size());
  }

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  int64_t output_width() const override {
    return config().is_ranking() ? ranking().columns() : similarity().columns();
  }
  at::Tensor outputs(const EmbeddingBatch& batch) override;
  at::Tensor global_loss(const at::Tensor& outputs) override {
    return config().is_ranking() ? ranking().begin(outputs) : similarity().losses(outputs);
  }
  void begin_rows(const at::Tensor& outputs) override {
    config().is_ranking() ? void(ranking().begin(outputs)) : Base::begin_rows(outputs);
  }
  RowLoss row_loss(const at::Tensor& outputs, int64_t first, int64_t count) override {
    return config().is_ranking() ? ranking().part(outputs, first, count)
                                 : Base::row_loss(outputs, first, count);
  }

  std::vector<Metric> metrics() override;
  void evaluate(const EmbeddingBatch& batch, EvaluationSink& sink) override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override { return {"text"}; }
  void predict(const EmbeddingBatch& batch, const PredictionSink& sink) override;
  double flops(const EmbeddingBatch& batch) override { return model().flops(batch.texts); }

 private:
  void open_corpus();
  records::PairSource source_of(const sources::SourceFiles& files, Split split,
                                const files::SplitPart& part) const;
  text::Reading reading_of(const sources::SourceFiles& files, Split split,
                           const files::SplitPart& part) const;
  Encoder encoder(bool is_collection) const;
  std::vector<int64_t> framed(std::vector<int64_t> tokens) const;
  void warn_of_cut_texts() const;
  // What stands behind a text; nothing: a language model's tokenizer puts nothing there.
  std::optional<int64_t> end_of_text() const;
  int64_t width() const { return config().encoder({1, 0, 0}).width(); }
  sentence_encoder::RankingLoss& ranking() const;
  sentence_encoder::SimilarityLoss similarity() const { return {width(), config().loss_options()}; }
  // The rows of the loss of a batch whose samples all have a second text, from the vectors of its texts.
  at::Tensor rows_of(const EmbeddingBatch& batch, const at::Tensor& vectors) const;
  void open_vector_files(Split split);
  void report_ranking(const Report& report, const ReportSink& sink) const;
  void report_similarity(const Report& report, const ReportSink& sink) const;

  std::optional<text::Corpus> corpus_;
  mutable std::optional<sentence_encoder::RankingLoss> ranking_;
  std::vector<std::unique_ptr<common::VectorFiles>> files_;  // of predictions, in each format
};

}  // namespace pipeline::tasks::embedding
