// Learning from preferences: of two answers to a question the one that people prefer becomes more likely, and
// the other one less.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/tasks/preference/config.hpp"
#include "plugins/tasks/preference/data.hpp"
#include "plugins/tasks/preference/losses.hpp"
#include "plugins/tasks/text/task.hpp"

namespace pipeline::tasks::preference {

using text::Answered;

class Preference : public text::TextTask<PreferenceConfig> {
 public:
  using TextTask::TextTask;

  std::shared_ptr<language::LanguageModel> build_model() override;
  void import_model(const std::filesystem::path& folder) override;

  BatchInfo batch_info(const text::TextBatch& batch) const override;
  LossSum train_batch(const text::TextBatch& batch, const TrainArgs& args) override;
  LossSum loss(const text::TextBatch& batch) override;
  double flops(const text::TextBatch& batch) override;

  std::vector<Metric> metrics() override;
  void evaluate(const text::TextBatch& batch, EvaluationSink& sink) override;
  std::vector<std::string> prediction_columns() override;
  void predict(const text::TextBatch& batch, const PredictionSink& sink) override;

 protected:
  tokenizer::TrainingTexts training_texts() const override;
  text::Reading reading(const sources::SourceFiles& files, Split /*split*/,
                        const files::SplitPart& part) const override {
    return recipe().reading(files, part);
  }
  std::string asked_sample() const override;
  void open_tokenizer() override;
  int64_t open_rules() override { return format_->end_token(); }
  const char* noun() const override { return "pairs"; }
  bool logs_data() const override { return run().purpose == PL_PURPOSE_TRAIN; }

  std::string name_of(const TokenSample& sample) const override { return chosen_of(sample).id; }
  std::vector<text::Sequence> sequences(const TokenSample& sample) const override {
    return sequences_of(sample);
  }
  int64_t max_tokens() const override { return config().chat.max_tokens; }

  bool is_scored(Purpose /*purpose*/, uint64_t /*id*/) const override { return false; }  // only shown
  bool is_answered(const TokenSample& /*sample*/) const override { return true; }
  text::Question question(const TokenSample& sample) const override;
  std::string written_text(const std::vector<int64_t>& tokens) const override {
    return format_->answer_text(tokens);
  }
  const char* written_noun() const override { return "answer"; }
  void score(const Answered& /*one*/, EvaluationSink& /*sink*/) const override {}
  size_t longest_line() const override { return 240; }
  std::vector<std::string> row(const Answered& one) const override;

 private:
  // What both models make of the pairs of a batch.
  struct Scores {
    LogProbabilities model, reference;  // the latter undefined where there is none
    Lengths lengths;
    at::Tensor losses;
    LogProbabilities rewards;
  };
  Scores scores(const text::TextBatch& batch);
  void require_start_is_reference(const Scores& found) const;
  void tell_sources(const text::TextBatch& batch, const at::Tensor& losses) const;
  bool is_asked() const { return run().purpose == PL_PURPOSE_PREDICT && !config().ask.prompt.empty(); }
  Recipe recipe() const {
    return {.data = config().data,
            .format = *format_,
            .tokenizer = tokenizer().shared(),
            .max_tokens = config().chat.max_tokens};
  }

  std::unique_ptr<const conversation::ChatFormat> format_;
  bool is_first_step_ = false;
  std::unique_ptr<language::LanguageModel> second_;  // the reference model, if it is one by itself; frozen
};

}  // namespace pipeline::tasks::preference
