// The tokens of conversations, for tests/parity/chat_format_parity.py to compare with transformers.
//
//   chat_format_probe FOLDER NOW < conversations > tokens
//
// A line of JSON, the template's variables with "prompt": true for what comes before an answer, gives one:
// {"tokens", "answer_of"} or {"error"}.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/models/chat/chat_format.hpp"

int main(int argc, char** argv) {
  using namespace pipeline;
  using nlohmann::ordered_json;
  if (argc != 3) {
    std::cerr << "usage: chat_format_probe FOLDER NOW < conversations\n";
    return 2;
  }
  const tokenizer::TokenizerPtr tokenizer = tokenizer::load_tokenizer(argv[1]);
  const auto [source, file] = chat::template_of(tokenizer->files());
  const chat::ChatFormat format(source, file, tokenizer, std::stoll(argv[2]));
  for (std::string line; std::getline(std::cin, line);) {
    ordered_json conversation = ordered_json::parse(line), answer;
    const bool is_prompt = conversation.value("prompt", false);
    conversation.erase("prompt");
    try {
      if (is_prompt) {
        answer = {{"tokens", format.prompt(conversation)}};
      } else {
        const chat::ChatTokens made = format.tokens(conversation);
        answer = {{"tokens", made.tokens}, {"answer_of", made.answer_of}};
      }
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  }
}
