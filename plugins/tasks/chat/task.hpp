// Supervised fine-tuning of a language model on conversations, packed end to end without padding.
#pragma once

#include <pipeline/torch/task.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hugging_face/token_ids.hpp"
#include "language/language_model.hpp"
#include "language/source_figures.hpp"
#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/chat/corpus.hpp"

namespace pipeline::tasks::chat {

using language::LanguageModel;

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

class Chat : public TorchTask<ChatConfig, LanguageModel, ChatBatch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;

  // The tokenizer, which carries the chat template.
  std::string extra_state() override { return corpus_->tokenizer().state(); }
  void set_extra_state(std::string_view state) override;
  void prepare() override { open_corpus(); }
  void open_data() override;
  std::shared_ptr<LanguageModel> build_model() override;

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  // About the tokens, of four bytes each.
  double sample_cost(Split split, uint64_t id) const override {
    return static_cast<double>(corpus_->bytes(split, id)) / 4 + 16;
  }
  std::string data_fingerprint() override;
  ChatBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const ChatBatch& batch) const override;

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  LossSum loss(const ChatBatch& batch) override {
    return language::told_loss(
        context(), batch.packed, config().loss.of(pass()), batch.sources,
        [&] { return corpus_->training().names(); },
        [&](const language::LossDetails& details) { return model().loss(batch.packed, pass(), details); });
  }
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
  double flops(const ChatBatch& batch) override { return model().flops(batch.packed); }

 private:
  // A conversation's last question with the answer that the model gives, and the true one, if there is one.
  struct Answered {
    uint64_t id;
    std::string name, question, truth, answer;
  };

  void open_corpus();
  bool shows_mask() const { return config().ask.show == "mask"; }
  void show_mask(const ChatBatch& batch, const PredictionSink& sink);
  void find_ends();
  hugging_face::OwnTokens own_tokens() const;
  Sequence sequence(Split split, uint64_t id, uint64_t epoch = 0) const;
  std::vector<Answered> answer(Split split, Purpose purpose, const std::vector<uint64_t>& ids);

  tokenizer::TokenizerPtr kept_tokenizer_;  // came with the weights
  std::optional<Corpus> corpus_;
  std::vector<int64_t> ends_;  // of what is generated
};

}  // namespace pipeline::tasks::chat
