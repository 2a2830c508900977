#include "plugins/tasks/chat/task.hpp"

#include <utility>

namespace pipeline::tasks::chat {

tokenizer::TrainingTexts Chat::training_texts() const {
  const files::SplitPart part = config().data.of(Split::kTrain).part;
  auto stores = std::make_shared<std::vector<messages::ConversationStore>>();
  for (const sources::SourceFiles& files : corpus().sources_of(Split::kTrain))
    stores->emplace_back(std::string(view(run().cache_dir)), plain_source(files, config().data),
                         corpus().hooks("reading " + files.name()), part);
  std::vector<const messages::ConversationStore*> all;
  for (const messages::ConversationStore& store : *stores)
    if (store.size() > 0) all.push_back(&store);
  if (all.empty()) config_error("data.train", "is needed to train a tokenizer on");
  tokenizer::TrainingTexts texts = common::training_texts(messages::texts_of(std::move(all)),
                                                          config().tokenizer.vocab_size, "conversations");
  texts.each = [stores, each = std::move(texts.each)](const auto& text, const auto& read) {
    each(text, read);
  };
  return texts;
}

void Chat::open_tokenizer() { format_ = open_format(config(), context(), tokenizer(), errors()); }

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
