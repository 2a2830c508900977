// Pictures and text: captions to align a vision encoder with a language model, conversations to tune both.
#pragma once

#include <pipeline/torch/task.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/data/picture_texts/source.hpp"
#include "plugins/models/llava/vlm.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/vlm/batch.hpp"
#include "plugins/tasks/vlm/chat.hpp"
#include "plugins/tasks/vlm/config.hpp"
#include "plugins/tasks/vlm/cut_conversations.hpp"
#include "plugins/tasks/vlm/feature_cache.hpp"
#include "plugins/tasks/vlm/majority.hpp"

namespace pipeline::tasks::vlm {

using picture_texts::Pictures;
using picture_texts::PictureSource;

struct VlmTaskBatch : llava::VlmBatch {
  std::vector<uint64_t> ids;
  PicturesOfBatch pictures;
  Split split = Split::kTrain;
  std::vector<size_t> sources;  // of each sample, where training has several
};

class VlmTask : public TorchTask<VlmTaskConfig, llava::Vlm, VlmTaskBatch> {
 public:
  explicit VlmTask(Setup setup)
      : TorchTask(std::move(setup)),
        tokenizer_(config().tokenizer, context(),
                   [this](const std::string& problem) { config_error("tokenizer.path", problem); }) {}
  static constexpr bool kHasUnits = true;

  std::string extra_state() override { return tokenizer_->state(); }
  void set_extra_state(std::string_view state) override {
    tokenizer_.set_state(state, is_set("tokenizer.path"));
  }
  void prepare() override { open_files(); }
  void open_data() override;
  std::shared_ptr<llava::Vlm> build_model() override;

  uint64_t sample_count(Split split) const override { return sources_[static_cast<size_t>(split)].size(); }
  double sample_cost(Split split, uint64_t id) const override;
  std::string data_fingerprint() override;
  VlmTaskBatch make_batch(const LoadRequest& request) const override;
  BatchInfo batch_info(const VlmTaskBatch& batch) const override;

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  LossSum loss(const VlmTaskBatch& batch) override {
    return common::loss_with_metrics(
        context(), batch.packed, config().loss.of(pass()), batch.sources, [&] { return training().names(); },
        [&](const language::LossDetails& details) { return model().loss(batch, pass(), details); });
  }
  void evaluate(const VlmTaskBatch& batch, EvaluationSink& sink) override;
  std::vector<Metric> metrics() override;
  void report(const Report& report, const ReportSink& sink) override;
  std::vector<std::string> prediction_columns() override { return {"question", "answer"}; }
  std::string sample_name(Split split, uint64_t id) const override { return conversation(split, id).id; }
  void predict(const VlmTaskBatch& batch, const PredictionSink& sink) override;
  void reply(std::string_view messages, const ReplySink& sink) override;
  double flops(const VlmTaskBatch& batch) override { return model().flops(batch); }

 private:
  void start_from_adapter(llava::Vlm& model) const;
  // A question of the batch's sample `sample`: its turn 2 * `index`.
  struct Question {
    size_t sample, index;
  };

  void open_files();
  void open_question();
  void open_features(llava::Vlm& model);
  // Checks the tokens of a folder that weights come from; ours has `count` tokens behind its own.
  void check_tokens(const std::filesystem::path& folder, const llava::Vlm& model, int64_t count) const;
  bool is_asked() const { return run().purpose == PL_PURPOSE_PREDICT && config().ask.any(); }
  const sources::Mixed<PictureSource>& training() const {
    return sources_[static_cast<size_t>(Split::kTrain)];
  }
  Conversation conversation(Split split, uint64_t id, uint64_t epoch = 0) const {
    return sources_[static_cast<size_t>(split)].with(
        epoch, id, [](const PictureSource& source, uint64_t i) { return source.conversations[i]; });
  }
  // Where the pictures of a sample are found.
  const Pictures& pictures(Split split, uint64_t id) const {
    return sources_[static_cast<size_t>(split)].with(
        0, id, [](const PictureSource& source, uint64_t) -> const Pictures& { return *source.pictures; });
  }
  at::Tensor rows_of(const VlmTaskBatch& batch, const at::Tensor& seen,
                     const std::vector<Conversation>& conversations,
                     const std::vector<Question>& questions) const;
  std::vector<std::string> answers(const VlmTaskBatch& batch, const std::vector<Conversation>& conversations,
                                   const std::vector<Question>& questions, Purpose purpose,
                                   bool with_pictures);
  void score_answers(const VlmTaskBatch& batch, const std::vector<Conversation>& conversations,
                     EvaluationSink& sink);
  void score_without_pictures(const VlmTaskBatch& batch, const std::vector<Conversation>& conversations,
                              EvaluationSink& sink);
  void score_retrieval(const VlmTaskBatch& batch, const std::vector<Conversation>& conversations,
                       EvaluationSink& sink);
  const MajorityAnswers& majority();
  const std::vector<uint64_t>& retrieved(Split split);
  // Rows of features that a square has in the sequence.
  int64_t model_rows() const {
    const int64_t factor = config().projector.scale_factor;
    return config().vision.vision.rows() / (factor * factor);
  }
  std::optional<SamplePicture> picture_of(const Pictures& pictures, const messages::Picture& picture) const;
  VlmTaskBatch batch_of(const std::vector<Conversation>& conversations, const LoadRequest& request,
                        bool with_pictures) const;

  common::TaskTokenizer tokenizer_;
  picture_texts::Splits sources_;
  std::optional<Chat> chat_;
  std::optional<PictureLayout> layout_;
  std::shared_ptr<CutConversations> cut_;
  std::shared_ptr<FeatureCache> features_;                         // of a frozen encoder
  std::optional<MajorityAnswers> majority_;                        // made when first asked for
  std::array<std::optional<std::vector<uint64_t>>, 3> retrieved_;  // made when first asked for
  bool is_open_ = false;
};

}  // namespace pipeline::tasks::vlm
