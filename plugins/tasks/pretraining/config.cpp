#include "plugins/tasks/pretraining/config.hpp"

#include <algorithm>

#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::pretraining {

// What options follow from the folder of a language model.
void PretrainingConfig::read_model(const PretrainingConfig& config, const std::filesystem::path& init_from,
                                   const ModelOptions& say) {
  const auto theirs = common::read_language_model(config.tokenizer, config.language, init_from, say);
  if (!theirs) return;
  const int64_t most = theirs->max_position_embeddings;
  const auto tell = [&](const char* key, int64_t value) { say(key, value, init_from / "config.json"); };
  if (!say.is_set("sequence.max_tokens") && config.sequence.max_tokens > most)
    tell("sequence.max_tokens", most);
  if (config.generate.prompt_tokens + config.generate.max_tokens > most) {
    tell("generate.prompt_tokens", std::min(config.generate.prompt_tokens, std::max<int64_t>(most / 4, 1)));
    tell("generate.max_tokens", std::min(config.generate.max_tokens, std::max<int64_t>(most / 4, 1)));
  }
}

}  // namespace pipeline::tasks::pretraining
