#include "plugins/tasks/chat/task.hpp"

#include <utility>

namespace pipeline::tasks::chat {

tokenizer::TrainingTexts Chat::training_texts() const {
  return conversation::texts_of(
      corpus(), config().data,
      [this](const sources::SourceFiles& files) { return plain_source(files, config().data); }, run(),
      config().tokenizer.vocab_size, errors());
}

void Chat::open_tokenizer() {
  format_ = conversation::open_format(config().chat, !config().tokenizer.path.empty(), context(), tokenizer(),
                                      errors());
}

std::string Chat::asked_sample() const {
  Conversation asked{.id = "prompt", .images = {}, .turns = {{.role = "user", .text = config().ask.prompt}}};
  if (!config().ask.system.empty())
    asked.turns.insert(asked.turns.begin(), {.role = "system", .text = config().ask.system});
  if (const std::string problem = problem_of(asked, false); !problem.empty())
    config_error("ask.prompt", problem);
  try {
    return recipe().asked_sample(asked);
  } catch (const Error& error) {
    config_error("ask.prompt", error.what());
  }
}

}  // namespace pipeline::tasks::chat

PIPELINE_TASK(
    pipeline::tasks::chat::Chat, "chat", "1.0.0",
    "A language model learns to answer in conversations. Weight decay: matrices and embeddings; not "
    "biases and norms")
