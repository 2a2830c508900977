#include "language/teacher.hpp"

#include <ATen/core/grad_mode.h>

#include "language/folder.hpp"

namespace pipeline::language {

Teacher::Teacher(LanguageModel& student, const TeacherOptions& options) : options_(options) {
  const std::string folder = options.init_from.string();
  const Config config = read_config(hugging_face::ConfigFile((options.init_from / "config.json").string()));
  model_ = make_frozen(student, config, "teacher.", /*is_droppable=*/true);
  if (config.vocab_size < student.config().vocab_size)
    fail_with(PL_ERROR_CONFIG, "task.teacher.init_from = \"", folder, "\": has ", config.vocab_size,
              " tokens, and the model ", student.config().vocab_size,
              ": set task.language.vocab_size to that");
  import_model(folder, *model_);
}

LossSum Teacher::loss(const LanguageModel& student, const PackedBatch& batch, const ForwardPass& pass,
                      LossDetails details, const at::Tensor& apart) const {
  details.teacher = model_.get();
  details.distillation = {.kind = {.beta = options_.beta, .temperature = options_.temperature},
                          .weight = options_.weight,
                          .row_losses = apart};
  return student.loss(batch, pass, details);
}

}  // namespace pipeline::language
