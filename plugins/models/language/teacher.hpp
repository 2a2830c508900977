// A second language model from whose probabilities a first one learns (Hinton et al., arXiv:1503.02531).
#pragma once

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <pipeline/options.hpp>

#include "language/language_model.hpp"

namespace pipeline::language {

// The options of a task's teacher, [task.teacher].
struct TeacherOptions {
  std::filesystem::path init_from;
  double weight = 0.5, beta = 0, temperature = 1;

  void describe(Options& o) {
    o("init_from", init_from,
      "folder of a model with the same tokenizer, whose probabilities training learns from; it stays as it "
      "is, "
      "in train.frozen_precision; empty: there is none");
    o("weight", weight,
      "training's loss is (1 - weight) x cross entropy + weight x divergence from the teacher")
        .above(0)
        .max(1);
    o("beta", beta,
      "the divergence: 0, KL(teacher | model), which covers all that the teacher says; 1, KL(model | "
      "teacher), "
      "which keeps to what it says most; between them GKD's mixture")
        .min(0)
        .max(1);
    o("temperature", temperature, "both models' logits are divided by it in the divergence").above(0);
  }
  void validate(const ConfigErrors& errors) const {
    std::error_code ignored;
    if (errors.trains() && !init_from.empty() && !std::filesystem::is_directory(init_from, ignored))
      errors("init_from", "there is no such folder");
    const TeacherOptions plain;
    for (const auto& [key, is_plain] : {std::pair("weight", weight == plain.weight),
                                        {"beta", beta == plain.beta},
                                        {"temperature", temperature == plain.temperature}})
      if (init_from.empty() && !is_plain) errors(key, "is of no use without a teacher: set init_from, too");
  }
};

// Frozen, in the registry of the model that learns from it, as its "teacher.*" behind its units. A stage or a
// prediction may do without. Not for several threads at once.
class Teacher {
 public:
  // Throws an Error where the folder is none of a language model. `student` must outlive this.
  Teacher(LanguageModel& student, const TeacherOptions& options);

  const LanguageModel& model() const { return *model_; }
  // Loss of the student over the rows with a target; `apart`, (rows) fp32, receives the divergences.
  LossSum loss(const LanguageModel& student, const PackedBatch& batch, const ForwardPass& pass,
               LossDetails details, const at::Tensor& apart) const;

 private:
  const TeacherOptions options_;
  std::unique_ptr<LanguageModel> model_;
};

}  // namespace pipeline::language
