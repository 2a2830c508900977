// Renders for a parity test: a line of JSON, {"template", "variables", "now"}, gives one: {"text",
// "generated"} or {"error"}.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/models/chat/template.hpp"

int main() {
  using nlohmann::ordered_json;
  for (std::string line; std::getline(std::cin, line);) {
    const ordered_json asked = ordered_json::parse(line);
    ordered_json answer;
    try {
      const pipeline::chat::Template made(asked.at("template").get<std::string>(), "a test");
      const auto rendered = made.render(asked.at("variables"), asked.value("now", int64_t{0}));
      answer = {{"text", rendered.text}, {"generated", rendered.generated}};
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  }
}
