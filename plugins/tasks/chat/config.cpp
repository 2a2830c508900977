// What options follow from the folder of a language model.
#include <algorithm>

#include "hugging_face/weights.hpp"
#include "language/adapter.hpp"
#include "language/folder.hpp"
#include "plugins/tasks/chat/config.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::chat {

void ChatConfig::read_model(const ChatConfig& config, const std::filesystem::path& init_from,
                            const ModelOptions& say) {
  tokenizer::check_tokenizer(say, config.tokenizer.path);
  if (const std::string problem = ChatOptions::problem_of(config.chat.chat_template); !problem.empty())
    say.problem("chat.template", problem);
  if (init_from.empty() && config.language.lora.init_from.empty()) return;
  const auto tell_adapter = [&](const language::Config& model) {
    adapters::tell_adapter(say, "language.lora.", language::adapted_model(model), config.language.lora,
                           init_from.string());
  };
  if (init_from.empty()) return tell_adapter(config.language.model({}));
  const std::filesystem::path file = init_from / "config.json";
  const language::Config theirs = language::read_config(hugging_face::ConfigFile(file.string()));
  hugging_face::check_weights(init_from.string());
  language::tell_options(say, "language.", file, theirs, config.language);
  tell_adapter(theirs);
  tokenizer::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));

  int64_t tokens = config.chat.max_tokens;
  if (!say.is_set("chat.max_tokens") && tokens > theirs.max_position_embeddings)
    say("chat.max_tokens", tokens = theirs.max_position_embeddings, file);
  if (config.generate.max_tokens >= tokens)
    say("generate.max_tokens", std::max<int64_t>(tokens / 4, 1), file);
}

}  // namespace pipeline::tasks::chat
