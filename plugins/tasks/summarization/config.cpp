// What options follow from the folder of a language model.
#include "plugins/tasks/summarization/config.hpp"

#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::summarization {

void SummarizationConfig::read_model(const SummarizationConfig& config,
                                     const std::filesystem::path& init_from, const ModelOptions& say) {
  const auto theirs = common::read_language_model(config.tokenizer, config.language, init_from, say);
  if (!theirs) return;
  const auto tell = [&](const char* key, int64_t value) { say(key, value, init_from / "config.json"); };
  SummarizationConfig run = config;
  if (!say.is_set("sequence.max_tokens") && run.sequence.max_tokens > theirs->max_position_embeddings)
    tell("sequence.max_tokens", run.sequence.max_tokens = theirs->max_position_embeddings);
  constexpr int64_t kSeparator = 8;  // tokens that it has at most, about
  if (run.writing_problem(kSeparator).empty()) return;
  const int64_t quarter = std::max<int64_t>(run.sequence.max_tokens / 4, 1);
  tell("sequence.max_summary_tokens", std::min(run.sequence.max_summary_tokens, quarter));
  tell("generate.max_tokens", std::min(run.generate.max_tokens, quarter));
}

}  // namespace pipeline::tasks::summarization
