// Pretraining, from random weights or on from those of a folder: a language model learns to continue texts.
#pragma once

#include <string>
#include <vector>

#include "plugins/tasks/pretraining/config.hpp"
#include "plugins/tasks/pretraining/data.hpp"
#include "plugins/tasks/text/task.hpp"

namespace pipeline::tasks::pretraining {

using text::Answered;

class Pretraining : public text::TextTask<PretrainingConfig> {
 public:
  using TextTask::TextTask;

  void open_data() override;
  std::vector<Metric> metrics() override { return common::loss_metrics(); }
  std::vector<std::string> prediction_columns() override {
    return shows_logits() ? common::logits_columns() : std::vector<std::string>{"prompt", "continuation"};
  }

 protected:
  tokenizer::TrainingTexts training_texts() const override;
  text::Reading reading(const sources::SourceFiles& files, Split split,
                        const files::SplitPart& part) const override;
  std::string asked_sample() const override;
  int64_t open_rules() override;
  const char* noun() const override { return "blocks"; }
  const char* held_out_noun() const override { return "blocks (whole documents, see task.data.document)"; }
  bool logs_data() const override { return run().purpose == PL_PURPOSE_TRAIN; }

  std::string name_of(const TokenSample& sample) const override { return pretraining::name_of(sample); }
  std::vector<Sequence> sequences(const TokenSample& sample) const override { return pieces_of(sample); }
  int64_t max_tokens() const override { return config().sequence.max_tokens; }

  bool is_scored(Purpose /*purpose*/, uint64_t /*id*/) const override { return false; }  // only shown
  bool is_answered(const TokenSample& /*sample*/) const override { return true; }
  text::Question question(const TokenSample& sample) const override;
  std::string written_text(const std::vector<int64_t>& tokens) const override {
    return tokenizer()->decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
  }
  const char* written_noun() const override { return "continuation"; }
  void score(const Answered& /*one*/, EvaluationSink& /*sink*/) const override {}
  size_t longest_line() const override { return 240; }
  std::vector<std::string> row(const Answered& one) const override { return {one.question.text, one.answer}; }

 private:
  bool is_asked() const { return run().purpose == PL_PURPOSE_PREDICT && !config().ask.prompt.empty(); }
  std::vector<int32_t> document_of(std::string_view text) const;  // from its begin to its end
};

}  // namespace pipeline::tasks::pretraining
