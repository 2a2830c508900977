// The tokens of conversations, for tests/parity/chat_comparison.py to compare with transformers.
//
//   vlm_chat_probe TEMPLATE TOKENIZER PATCHES < [[turn, ...], ...] > [[token, ...], ...]
//
// A conversation is its turns in order, a question first; a token of -1 is a patch of one of its pictures.
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/tasks/vlm/chat.hpp"

int main(int argc, char** argv) {
  using namespace pipeline::tasks::vlm;
  if (argc != 4) {
    std::cerr << "usage: vlm_chat_probe TEMPLATE TOKENIZER PATCHES < conversations.json\n";
    return 2;
  }
  const Chat chat(argv[1], pipeline::tokenizer::load_tokenizer(argv[2]), 100000);
  const std::vector<int64_t> patches(std::stoul(argv[3]), ChatTokens::kPatch);
  auto answers = nlohmann::json::array();
  for (const auto& turns : nlohmann::json::parse(std::cin)) {
    Conversation conversation{.id = "c", .images = {}, .turns = {}};
    for (size_t i = 0; i < turns.size(); ++i)
      conversation.turns.push_back({i % 2 == 1 ? "assistant" : "user", turns[i]});
    const size_t pictures = pictures_until(conversation, last_question(conversation));
    Sequence sequence = chat.sequence(conversation, PictureTokens(pictures, patches));
    sequence.tokens.push_back(sequence.targets.back());  // the end, which nothing comes after
    answers.push_back(sequence.tokens);
  }
  std::cout << answers << "\n";
  return 0;
}
