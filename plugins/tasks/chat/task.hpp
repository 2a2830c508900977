// Supervised fine-tuning of a language model on conversations.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/chat/data.hpp"
#include "plugins/tasks/conversation/sequence.hpp"
#include "plugins/tasks/text/task.hpp"

namespace pipeline::tasks::chat {

using stores::TokenSample;
using text::Answered;

// The tokenizer carries the chat template.
class Chat : public text::TextTask<ChatConfig> {
 public:
  using TextTask::TextTask;

  std::vector<Metric> metrics() override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override {
    if (shows_mask()) return {"text", "tokens", "learnt"};
    if (shows_logits()) return common::logits_columns();
    return {"question", "answer"};
  }
  void predict(const text::TextBatch& batch, const PredictionSink& sink) override;
  void reply(std::string_view messages, const ReplySink& sink) override;

 protected:
  tokenizer::TrainingTexts training_texts() const override;
  text::Reading reading(const sources::SourceFiles& files, Split split,
                        const files::SplitPart& part) const override {
    return recipe().reading(files, part, split != Split::kTest || run().purpose == PL_PURPOSE_EVALUATE);
  }
  std::string asked_sample() const override;
  void open_tokenizer() override;
  int64_t open_rules() override { return format_->end_token(); }
  const char* noun() const override { return "conversations"; }
  bool logs_data() const override { return run().purpose == PL_PURPOSE_TRAIN; }

  std::string name_of(const TokenSample& sample) const override { return conversation_of(sample).id; }
  std::vector<text::Sequence> sequences(const TokenSample& sample) const override {
    return {sequence_of(sample)};
  }
  int64_t max_tokens() const override { return config().chat.max_tokens; }

  bool is_scored(Purpose purpose, uint64_t id) const override {
    return config().generate.includes(purpose, id);
  }
  bool is_answered(const TokenSample& sample) const override {
    return conversation_of(sample).turns.back().is_assistant();
  }
  std::string messages_of(const TokenSample& sample) const override;
  // A conversation's last question.
  text::Question question(const TokenSample& sample) const override;
  std::string written_text(const std::vector<int64_t>& tokens) const override {
    return format_->answer_text(tokens);
  }
  const char* written_noun() const override { return "answer"; }
  void score(const Answered& one, EvaluationSink& sink) const override;
  size_t longest_line() const override { return 240; }
  std::vector<std::string> row(const Answered& one) const override { return {one.question.text, one.answer}; }

 private:
  bool shows_mask() const { return config().ask.show == "mask"; }
  void show_mask(const text::TextBatch& batch, const PredictionSink& sink) const;
  Recipe recipe() const {
    return {.data = config().data,
            .format = *format_,
            .tokenizer = tokenizer().shared(),
            .max_tokens = config().chat.max_tokens,
            .learn = learn_named(config().chat.learn)};
  }

  std::unique_ptr<const ChatFormat> format_;
};

}  // namespace pipeline::tasks::chat
