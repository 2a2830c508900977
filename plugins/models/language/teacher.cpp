#include "language/teacher.hpp"

#include <ATen/core/grad_mode.h>

#include "language/folder.hpp"

namespace pipeline::language {
namespace {

Config config_of(const TeacherOptions& options, int64_t student_tokens) {
  const Config config = read_config(hugging_face::ConfigFile((options.init_from / "config.json").string()));
  if (config.vocab_size < student_tokens)
    fail_with(PL_ERROR_CONFIG, "task.teacher.init_from = \"", options.init_from.string(), "\": has ",
              config.vocab_size, " tokens, and the model ", student_tokens,
              ": set task.language.vocab_size to that");
  return config;
}

}  // namespace

std::unique_ptr<LanguageModel> make_teacher(LanguageModel& student, const TeacherOptions& options) {
  const Config config = config_of(options, student.config().vocab_size);
  auto teacher = make_frozen(student, config, "teacher.", /*is_droppable=*/true);
  import_model(options.init_from.string(), *teacher);
  return teacher;
}

std::string name_of_teacher(const TeacherOptions& options, const LanguageModel& teacher) {
  return concat(options.init_from.string(), ", ", teacher.config().architecture, " of ",
                teacher.config().num_hidden_layers, " layers, ", teacher.config().hidden_size, " wide");
}

std::unique_ptr<LanguageModel> load_teacher(const TeacherOptions& options, int64_t student_tokens,
                                            at::Device device, at::ScalarType compute) {
  const at::NoGradGuard no_grad;
  auto teacher = std::make_unique<LanguageModel>(config_of(options, student_tokens));
  import_model(options.init_from.string(), *teacher);
  const ParameterRegistry& registry = teacher->parameters();
  for (size_t i = 0; i < registry.size(); ++i) {
    at::Tensor parameter = registry[i].tensor;
    parameter.requires_grad_(false);
    at::Tensor values = parameter.detach();
    registry.initialize(i, /*seed=*/0, values);
    const bool is_narrow = compute == at::kBFloat16 && (registry[i].forms & PL_FORM_BFLOAT16) != 0;
    parameter.set_data(values.to(device, is_narrow ? at::kBFloat16 : at::kFloat));
  }
  return teacher;
}

}  // namespace pipeline::language
