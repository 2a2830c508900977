// Pictures and text: captions to align a vision encoder with a language model, conversations to tune both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/vlm/config.hpp"
#include "plugins/tasks/vlm/data.hpp"
#include "plugins/tasks/vlm/evaluation.hpp"

namespace pipeline::tasks::vlm {

class VlmTask : public common::SequenceTask<VlmTaskConfig, llava::Vlm, VlmTaskBatch> {
 public:
  using SequenceTask::SequenceTask;

  void prepare() override { data_.open_files(); }
  void open_data() override { data_.open(); }
  std::shared_ptr<llava::Vlm> build_model() override;

  uint64_t sample_count(Split split) const override { return data_.of(split).size(); }
  double sample_cost(Split split, uint64_t id) const override { return data_.cost(split, id); }
  std::string sample_name(Split split, uint64_t id) const override {
    return data_.conversation(split, id).id;
  }
  std::string data_fingerprint() override { return data_.fingerprint(); }
  VlmTaskBatch make_batch(const LoadRequest& request) const override { return data_.batch(request); }

  void import_model(const std::filesystem::path& folder) override;
  void export_model(const std::filesystem::path& folder) override;

  void evaluate(const VlmTaskBatch& batch, EvaluationSink& sink) override {
    SequenceTask::evaluate(batch, sink);
    evaluation_.evaluate(batch, inference(), sink);
  }
  std::vector<Metric> metrics() override { return Evaluation::metrics(); }
  void report(const Report& report, const ReportSink& sink) override { evaluation_.report(report, sink); }
  std::vector<std::string> prediction_columns() override { return {"question", "answer"}; }
  void predict(const VlmTaskBatch& batch, const PredictionSink& sink) override {
    evaluation_.predict(batch, inference(), sink);
  }
  void reply(std::string_view messages, const ReplySink& sink) override {
    evaluation_.reply(messages, inference(), sink);
  }

 protected:
  std::vector<std::string> source_names() const override { return data_.of(Split::kTrain).names(); }

 private:
  Inference inference() { return {.model = model(), .pass = pass(), .device = device()}; }
  void start_from_adapter(llava::Vlm& model) const;
  // Checks the tokens of a folder that weights come from; ours has `count` tokens behind its own.
  void check_tokens(const std::filesystem::path& folder, const llava::Vlm& model, int64_t count) const;

  Data data_{config(), context(), errors(), tokenizer()};
  Evaluation evaluation_{config(), context(), data_, tokenizer()};
};

}  // namespace pipeline::tasks::vlm
