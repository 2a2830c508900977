// Summarization: a language model learns to continue a document with its summary.
#pragma once

#include <string>
#include <vector>

#include "plugins/tasks/summarization/config.hpp"
#include "plugins/tasks/summarization/data.hpp"
#include "plugins/tasks/text/task.hpp"

namespace pipeline::tasks::summarization {

using text::Answered;

class Summarization : public text::TextTask<SummarizationConfig> {
 public:
  using TextTask::TextTask;

  void open_data() override;
  void evaluate(const text::TextBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  std::vector<std::string> prediction_columns() override {
    return shows_logits() ? common::logits_columns() : std::vector<std::string>{"summary"};
  }

 protected:
  tokenizer::TrainingTexts training_texts() const override;
  text::Reading reading(const sources::SourceFiles& files, Split split,
                        const files::SplitPart& part) const override;
  std::string asked_sample() const override;
  int64_t open_rules() override;
  const char* noun() const override { return "pairs"; }
  bool logs_data() const override { return run().purpose != PL_PURPOSE_EXPORT; }

  std::string name_of(const TokenSample& sample) const override { return std::string(sample.beside); }
  std::vector<Sequence> sequences(const TokenSample& sample) const override {
    return {make_sequence(sample, rules_)};
  }
  std::string sequence_rules() const override { return rules_.key(); }
  int64_t max_tokens() const override { return rules_.max_tokens; }

  bool is_scored(Purpose purpose, uint64_t id) const override { return config().rouge.includes(purpose, id); }
  bool is_answered(const TokenSample& sample) const override { return sample.has_target(); }
  text::Question question(const TokenSample& sample) const override;
  std::string written_text(const std::vector<int64_t>& tokens) const override {
    return tokenizer()->decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
  }
  const char* written_noun() const override { return "summary"; }
  void score(const Answered& one, EvaluationSink& sink) const override;
  std::vector<std::string> row(const Answered& one) const override { return {one.answer}; }

 private:
  PairSource source_of(const sources::SourceFiles& files, Split split, const files::SplitPart& part) const;
  uint32_t vocabulary_size() const { return static_cast<uint32_t>(tokenizer()->vocab_size()); }
  void warn_of_scripts() const;  // that ROUGE does not see
  std::string decoded(const stores::TokenView& tokens) const {
    return tokenizer()->decode(tokens.all<int32_t>());
  }

  SequenceRules rules_;
};

}  // namespace pipeline::tasks::summarization
