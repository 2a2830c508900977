// A second language model from whose probabilities a first one learns (Hinton et al., arXiv:1503.02531).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <pipeline/options.hpp>

#include "language/language_model.hpp"

namespace pipeline::language {

// The options of a task's teacher, [task.teacher].
struct TeacherOptions {
  std::filesystem::path init_from;
  double weight = 0.5, beta = 0, temperature = 1;
  int64_t top_k = 0;

  bool is_wanted() const { return !init_from.empty(); }
  // Whether it is asked before training alone, and what it says is kept.
  bool is_kept() const { return is_wanted() && top_k > 0; }
  transformer::Divergence divergence() const { return {.beta = beta, .temperature = temperature}; }

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
    o("top_k", top_k,
      "the teacher is asked once, before training, and of each target its so many likeliest tokens are kept "
      "in run.cache_dir; the divergence takes all others together for one. 0: it is asked in every step, and "
      "nothing is left out")
        .unit("tokens")
        .min(0);
  }
  void validate(const ConfigErrors& errors) const {
    std::error_code ignored;
    if (errors.trains() && is_wanted() && !std::filesystem::is_directory(init_from, ignored))
      errors("init_from", "there is no such folder");
    const TeacherOptions plain;
    for (const auto& [key, is_plain] : {std::pair("weight", weight == plain.weight),
                                        {"beta", beta == plain.beta},
                                        {"temperature", temperature == plain.temperature},
                                        {"top_k", top_k == plain.top_k}})
      if (!is_wanted() && !is_plain) errors(key, "is of no use without a teacher: set init_from, too");
  }
};

// Frozen, in the registry of the model that learns from it, as its "teacher.*" behind its units. A stage or a
// prediction may do without. Throws an Error where the folder is none of a language model. `student` must
// outlive it.
std::unique_ptr<LanguageModel> make_teacher(LanguageModel& student, const TeacherOptions& options);

// For the log: "models/large, qwen3 of 28 layers, 1024 wide".
std::string name_of_teacher(const TeacherOptions& options, const LanguageModel& teacher);

// By itself, with its weights on a device: matrices in bfloat16 where that is computed in, all else in
// float32. For a student with so many tokens.
std::unique_ptr<LanguageModel> load_teacher(const TeacherOptions& options, int64_t student_tokens,
                                            at::Device device, at::ScalarType compute);

}  // namespace pipeline::language
