#include "plugins/models/chat/template.hpp"

#include <pipeline/error.hpp>

#include "core/base/utf8.hpp"
#include "plugins/models/chat/compiler.hpp"

namespace pipeline::chat {
namespace {

[[noreturn]] void fail_for(const std::string& file, const Problem& problem) {
  if (problem.line == 0)
    fail_with(PL_ERROR_CONFIG, file,
              ": its chat template cannot be given this conversation: ", problem.what());
  fail_with(PL_ERROR_CONFIG, file, ", line ", problem.line, " of its chat template: ", problem.what());
}

}  // namespace

struct Template::Program {
  Statement run;
};

Template::Template(std::string_view source, std::string file) : file_(std::move(file)) {
  if (first_invalid_utf8(source) != std::string_view::npos)
    fail_with(PL_ERROR_CONFIG, file_, ": its chat template is not UTF-8");
  try {
    program_ = std::make_unique<const Program>(Program{compile(source)});
  } catch (const Problem& problem) {
    fail_for(file_, problem);
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Rendered Template::render(const nlohmann::ordered_json& variables, std::time_t now) const {
  Rendered rendered;
  Rendering rendering(now);
  Frame frame{rendering, rendered.text, &rendered};
  try {
    for (const auto& [name, value] : variables.items()) {
      Value& variable = frame.variables.emplace_back(name, Value::of(value)).second;
      if (name != "messages" || !variable.is_list()) continue;
      rendered.turns.assign(variable.members->size(), Rendered::kNoTurn);
      for (size_t i = 0; i < rendered.turns.size(); ++i) (*variable.members)[i].second.message = i + 1;
    }
    program_->run(frame);
  } catch (const Problem& problem) {
    fail_for(file_, problem);
  }
  return rendered;
}

}  // namespace pipeline::chat
