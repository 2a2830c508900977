// What a model says about pictures: answers, written and scored, beside those without the picture and those
// that are the usual ones; and captions found among others.
#pragma once

#include <pipeline/task_types.hpp>
#include <pipeline/torch/forward.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/scores/answers/answer_figures.hpp"
#include "plugins/tasks/common/writing.hpp"
#include "plugins/tasks/vlm/data.hpp"

namespace pipeline::tasks::vlm {

// What the task has of its model during one call.
struct Inference {
  llava::Vlm& model;
  const ForwardPass& pass;
  c10::Device device;
};

// A question of the batch's sample `sample`: its turn 2 * `question`.
struct Asked {
  size_t sample, question;
};

class Evaluation {
 public:
  // All of it must outlive this.
  Evaluation(const VlmTaskConfig& config, const Context& context, const Data& data,
             const common::TaskTokenizer& tokenizer)
      : config_(config), context_(context), data_(data), tokenizer_(tokenizer) {}

  static std::vector<Metric> metrics();
  // All but the loss of a batch.
  void evaluate(const VlmTaskBatch& batch, const Inference& inference, EvaluationSink& sink);
  void report(const Report& report, const ReportSink& sink) const;
  void predict(const VlmTaskBatch& batch, const Inference& inference, const PredictionSink& sink) const;
  void reply(std::string_view messages, const Inference& inference, const ReplySink& sink) const;

 private:
  common::Writing writing(const Inference& inference) const {
    return {context_, config_.generate, tokenizer_.ends(), inference.pass.compute};
  }
  std::vector<std::string> answers(const VlmTaskBatch& batch, const Inference& inference,
                                   const std::vector<Conversation>& conversations,
                                   const std::vector<Asked>& questions, Purpose purpose,
                                   bool with_pictures) const;
  void score_answers(const VlmTaskBatch& batch, const Inference& inference,
                     const std::vector<Conversation>& conversations, EvaluationSink& sink);
  void score_without_pictures(const VlmTaskBatch& batch, const Inference& inference,
                              const std::vector<Conversation>& conversations,
                              const EvaluationSink& sink) const;
  void score_retrieval(const VlmTaskBatch& batch, const Inference& inference,
                       const std::vector<Conversation>& conversations, const EvaluationSink& sink);
  const answers::MajorityAnswers& majority();
  const std::vector<uint64_t>& retrieved(Split split);

  const VlmTaskConfig& config_;
  const Context& context_;
  const Data& data_;
  const common::TaskTokenizer& tokenizer_;
  std::optional<answers::MajorityAnswers> majority_;               // made when first asked for
  std::array<std::optional<std::vector<uint64_t>>, 3> retrieved_;  // made when first asked for
};

}  // namespace pipeline::tasks::vlm
