// Supervised fine-tuning of a language model on conversations, packed end to end without padding.
#pragma once

#include <pipeline/torch/task.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/chat/corpus.hpp"
#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::chat {

struct ChatBatch {
  language::PackedBatch packed;
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;
  std::vector<size_t> sources;  // of each, where training has several

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
  }
};

// The tokenizer carries the chat template.
class Chat : public common::LanguageTask<ChatConfig, ChatBatch> {
 public:
  using LanguageTask::LanguageTask;

  void prepare() override { open_corpus(); }
  void open_data() override;

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  // About the tokens, of four bytes each.
  double sample_cost(Split split, uint64_t id) const override {
    return static_cast<double>(corpus_->bytes(split, id)) / 4 + 16;
  }
  std::string data_fingerprint() override;
  ChatBatch make_batch(const LoadRequest& request) const override;
  void evaluate(const ChatBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override {
    if (shows_mask()) return {"text", "tokens", "learnt"};
    return {"question", "answer"};
  }
  std::string sample_name(Split split, uint64_t id) const override {
    return corpus_->conversation(split, id).id;
  }
  void predict(const ChatBatch& batch, const PredictionSink& sink) override;
  void reply(std::string_view messages, const ReplySink& sink) override;

 private:
  // A conversation's last question with the answer that the model gives, and the true one, if there is one.
  struct Answered {
    uint64_t id;
    std::string name, question, truth, answer;
  };

  void open_corpus();
  bool shows_mask() const { return config().ask.show == "mask"; }
  void show_mask(const ChatBatch& batch, const PredictionSink& sink);
  std::vector<std::string> source_names() const override { return corpus_->training().names(); }
  Sequence sequence(Split split, uint64_t id, uint64_t epoch = 0) const;
  std::vector<Answered> answer(Split split, Purpose purpose, const std::vector<uint64_t>& ids);

  std::optional<Corpus> corpus_;
};

}  // namespace pipeline::tasks::chat
