#include "plugins/models/chat/template.hpp"

#include <pipeline/error.hpp>

#include "plugins/models/chat/compiler.hpp"

namespace pipeline::chat {

struct Template::Program {
  Statement run;
};

Template::Template(std::string_view source, std::string file) : file_(std::move(file)) {
  try {
    program_ = std::make_unique<const Program>(Program{compile(tokens_of(source))});
  } catch (const LineProblem& problem) {
    fail_with(PL_ERROR_CONFIG, file_, ", line ", problem.line, " of its chat template: ", problem.what());
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Rendered Template::render(const nlohmann::ordered_json& variables, std::time_t now) const {
  Rendered rendered;
  Budget budget;
  Scope functions;
  add_functions(functions, budget, now);
  Scope scope(&functions);
  Frame frame{budget, scope, rendered.text, &rendered.generated};
  try {
    for (const auto& [name, value] : variables.items()) scope.set(name, Value::of(value));
    program_->run(frame);
  } catch (const Problem& problem) {  // of the variables
    fail_with(PL_ERROR_CONFIG, file_,
              ": its chat template cannot be given this conversation: ", problem.what());
  } catch (const LineProblem& problem) {
    fail_with(PL_ERROR_CONFIG, file_, ", line ", problem.line, " of its chat template: ", problem.what());
  }
  return rendered;
}

}  // namespace pipeline::chat
