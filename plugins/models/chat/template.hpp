// A chat template: the Jinja text of a model's folder, which writes a conversation as the model reads it.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace pipeline::chat {

struct Rendered {
  std::string text;
  // Bytes that stand within {% generation %}, in order: what the assistant has written.
  std::vector<std::pair<size_t, size_t>> generated;
  // Where the turn of each message begins in the last loop over the variable "messages"; kNoTurn: there is
  // none.
  static constexpr size_t kNoTurn = static_cast<size_t>(-1);
  std::vector<size_t> turns;
};

// The part of Jinja that published templates use, with what transformers gives them: trimmed blocks, loop
// controls, {% generation %}, raise_exception, strftime_now, tojson. The rest is refused by name. Templates
// are not trusted: they see nothing but their variables, and steps, depth and output are bounded. The
// reference is Jinja 3.1 and transformers.utils.chat_template_utils. Const: for any thread.
class Template {
 public:
  // Throws an Error (PL_ERROR_CONFIG) that names `file`, the line and what is not read here.
  Template(std::string_view source, std::string file);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // `variables`: an object, such as {"messages": [...], "add_generation_prompt": true, "bos_token": "<s>"}.
  // `now`: what strftime_now() tells, in local time. Throws as the constructor does, and where the template
  // refuses the conversation.
  Rendered render(const nlohmann::ordered_json& variables, std::time_t now) const;

 private:
  struct Program;
  std::string file_;
  std::unique_ptr<const Program> program_;
};

}  // namespace pipeline::chat
