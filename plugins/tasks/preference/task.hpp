// Learning from preferences: of two answers to a question the one that people prefer becomes more likely, and
// the other one less.
#pragma once

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "heads/label_form.hpp"
#include "language/language_model.hpp"
#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/tasks/preference/config.hpp"
#include "plugins/tasks/preference/data.hpp"
#include "plugins/tasks/preference/losses.hpp"
#include "plugins/tasks/text/task.hpp"

namespace pipeline::tasks::preference {

using text::Answered;

struct PreferenceBatch : text::TextBatch {
  at::Tensor owners;  // (T) int64: the answer that each row with a target is of
  // KTO's: whether each answer is wanted, (samples) float64 as well, and its question with another sample's
  // answer.
  std::vector<double> wanted;
  at::Tensor is_wanted;
  language::PackedBatch crossed;
  at::Tensor crossed_owners;

  template <class V>
  void tensors(V&& visit) {
    TextBatch::tensors(visit);
    visit(owners);
    if (wanted.empty()) return;
    visit(is_wanted);
    crossed.tensors(visit);
    visit(crossed_owners);
  }
};

// Some answers of a batch, and which of them each row with a target is of.
struct Answers {
  const language::PackedBatch& packed;
  const at::Tensor& owners;
};

class Preference : public text::TextTask<PreferenceConfig, PreferenceBatch> {
 public:
  using TextTask::TextTask;
  static constexpr bool kHasGlobalLoss = true;  // KTO's reference point

  std::shared_ptr<language::LanguageModel> build_model() override;
  void import_model(const std::filesystem::path& folder) override;

  PreferenceBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const PreferenceBatch& batch) const override;
  pl_tensor make_room(uint64_t rows) override;
  void write_outputs(const PreferenceBatch& batch, const OutputsArgs& args) override;
  LossSum train_batch(const PreferenceBatch& batch, const TrainArgs& args) override;
  LossSum loss(const PreferenceBatch& batch) override;
  double flops(const PreferenceBatch& batch) override;

  std::vector<Metric> metrics() override;
  void evaluate(const PreferenceBatch& batch, EvaluationSink& sink) override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override;
  void predict(const PreferenceBatch& batch, const PredictionSink& sink) override;

 protected:
  std::optional<heads::LabelForm> label() const override {
    return is_reward() ? std::optional(heads::LabelForm{.are_numbers = true}) : std::nullopt;
  }
  std::optional<int64_t> last_token() const override;
  tokenizer::TrainingTexts training_texts() const override;
  text::Reading reading(const sources::SourceFiles& files, Split /*split*/,
                        const files::SplitPart& part) const override {
    return recipe().reading(files, part);
  }
  std::string asked_sample() const override;
  void open_tokenizer() override;
  int64_t open_rules() override { return format_->end_token(); }
  const char* noun() const override { return is_unpaired() ? "judged answers" : "pairs"; }
  bool logs_data() const override { return run().purpose == PL_PURPOSE_TRAIN; }

  std::string name_of(const TokenSample& sample) const override { return conversation_of(sample).id; }
  std::vector<text::Sequence> sequences(const TokenSample& sample) const override {
    return sequences_of(sample);
  }
  int64_t max_tokens() const override { return config().chat.max_tokens; }

  // That is, on the page.
  bool is_scored(Purpose purpose, uint64_t id) const override {
    return purpose == Purpose::kEvaluate && id < answers::kShownSamples;
  }
  bool is_answered(const TokenSample& /*sample*/) const override { return true; }
  text::Question question(const TokenSample& sample) const override;
  std::string written_text(const std::vector<int64_t>& tokens) const override {
    return format_->answer_text(tokens);
  }
  const char* written_noun() const override { return "answer"; }
  // By the model, and by the reference where there is one.
  std::vector<Answered> answer(Split split, Purpose purpose, const std::vector<uint64_t>& ids) override;
  void score(const Answered& one, EvaluationSink& sink) const override;
  size_t longest_line() const override { return 240; }
  std::vector<std::string> row(const Answered& one) const override { return {one.question.text, one.answer}; }

 private:
  // What both models make of the answers of a batch, float64 each: log-probabilities, or scores.
  struct Scores {
    at::Tensor model, reference, lengths;  // (answers); the reference undefined where there is none
    at::Tensor rewards;                    // (answers)
    at::Tensor losses;                     // (samples)
  };
  // Of each sample, float64; 0 where the weight is.
  struct Figure {
    const char* name;
    at::Tensor values;
    std::vector<double> weights;

    double weight() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
  };
  Scores scores(const PreferenceBatch& batch);
  std::vector<Figure> figures(const PreferenceBatch& batch, const Scores& found) const;
  // What `work` makes of the reference model.
  template <class Work>
  auto by_reference(Work&& work) {
    if (second_) return work(*second_);
    const language::WithoutAdapters bare(model());
    return work(model());
  }
  // Log-probabilities of the answers by the reference model.
  at::Tensor reference_of(const Answers& answers);
  // What the model gives each answer to another question more than the reference: (samples, 1) float32.
  at::Tensor crossed_ratios(const PreferenceBatch& batch);
  at::Tensor reference_point(const PreferenceBatch& batch);
  void warn_of_other_start(const Scores& found) const;
  // A pair with its scores, for the log.
  std::string scored_text(const PreferenceBatch& batch, size_t i, const at::Tensor& rewards) const;
  bool is_unpaired() const { return config().preference.is_unpaired(); }
  bool is_reward() const { return config().preference.is_reward(); }
  bool is_asked() const { return run().purpose == PL_PURPOSE_PREDICT && !config().ask.prompt.empty(); }
  Recipe recipe() const {
    return {.data = config().data,
            .format = *format_,
            .tokenizer = tokenizer().shared(),
            .max_tokens = config().chat.max_tokens,
            .is_unpaired = is_unpaired(),
            .is_scored = is_reward(),
            .padding = config().preference.padding};
  }

  bool is_first_step_ = false, is_whole_step_ = true;
  at::Tensor room_;  // crossed_ratios() of all samples of a step
  std::unique_ptr<const conversation::ChatFormat> format_;
  std::unique_ptr<language::LanguageModel> second_;  // the reference model, if it is one by itself; frozen
};

}  // namespace pipeline::tasks::preference
