// Any bytes as a template: it is refused, or it writes text; and the spans of what the assistant wrote are in
// it.
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include <pipeline/error.hpp>

#include "core/base/utf8.hpp"
#include "plugins/models/chat/template.hpp"
#include "tests/support/fuzz.hpp"

using namespace pipeline;
using pipeline::tests::require;

namespace {

const nlohmann::ordered_json& conversation() {
  static const auto kVariables = nlohmann::ordered_json::parse(R"({
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "enable_thinking": false,
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"city": {"type": "string"}}}}],
    "messages": [
      {"role": "system", "content": " Be brief. "},
      {"role": "user", "content": [{"type": "text", "text": "Zürich?"}, {"type": "image"}]},
      {"role": "assistant", "content": "", "reasoning_content": "hm",
       "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Zürich", "days": [1, 2.5, null]}}}]},
      {"role": "tool", "content": "21"},
      {"role": "assistant", "content": "<think>\n21\n</think>\n\nIt is 21."}]})");
  return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const chat::Template made({reinterpret_cast<const char*>(data), size}, "chat.jinja");
    const chat::Rendered rendered = made.render(conversation(), 0);
    require(first_invalid_utf8(rendered.text) == std::string::npos);
    size_t last = 0;
    for (const auto& [begin, end] : rendered.generated) {
      require(last <= begin && begin < end && end <= rendered.text.size());
      last = end;
    }
  } catch (const Error& error) {
    require(error.code() == PL_ERROR_CONFIG && std::string_view(error.what()).starts_with("chat.jinja"));
  }
  return 0;
}
