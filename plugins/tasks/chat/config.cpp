// What options follow from the folder of a language model.
#include <algorithm>

#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::chat {

void ChatConfig::read_model(const ChatConfig& config, const std::filesystem::path& init_from,
                            const ModelOptions& say) {
  if (const std::string problem = ChatOptions::problem_of(config.chat.chat_template); !problem.empty())
    say.problem("chat.template", problem);
  const auto theirs = common::read_language_model(config.tokenizer, config.language, init_from, say);
  if (!theirs) return;
  const std::filesystem::path file = init_from / "config.json";
  int64_t tokens = config.chat.max_tokens;
  if (!say.is_set("chat.max_tokens") && tokens > theirs->max_position_embeddings)
    say("chat.max_tokens", tokens = theirs->max_position_embeddings, file);
  if (config.generate.max_tokens >= tokens)
    say("generate.max_tokens", std::max<int64_t>(tokens / 4, 1), file);
}

}  // namespace pipeline::tasks::chat
