// What options follow from the folder of a language model.
#include "plugins/tasks/summarization/config.hpp"
#include "hugging_face/weights.hpp"
#include "language/adapter.hpp"
#include "language/folder.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::summarization {
namespace {

void tell_gpt2(const ModelOptions& say, const std::filesystem::path& file, const language::Config& theirs,
               const language::Config& ours) {
  const auto tell = [&](const char* key, const auto& value) { say(key, value, file); };
  tell("language.architecture", theirs.architecture);
  tell("language.vocab_size", theirs.vocab_size);
  tell("model.n_layer", theirs.num_hidden_layers);
  tell("model.n_head", theirs.num_attention_heads);
  tell("model.n_embd", theirs.hidden_size);
  language::Config same = theirs;  // 0 and 4 x n_embd are one
  same.intermediate_size = ours.intermediate_size;
  tell("model.n_inner", say.is_set("model.n_inner") && same.inner() == theirs.inner()
                            ? same.intermediate_size
                            : theirs.intermediate_size);
  tell("model.n_positions", theirs.max_position_embeddings);
  tell("model.layer_norm_epsilon", theirs.norm_eps);
  tell("model.initializer_range", theirs.initializer_range);
  tell("model.embd_pdrop", theirs.embedding_dropout);
  tell("model.attn_pdrop", theirs.attention_dropout);
  tell("model.resid_pdrop", theirs.residual_dropout);
}

}  // namespace

void SummarizationConfig::read_model(const SummarizationConfig& config,
                                     const std::filesystem::path& init_from, const ModelOptions& say) {
  tokenizer::check_tokenizer(say, config.tokenizer.path);
  if (init_from.empty() && config.language.lora.init_from.empty()) return;
  const auto tell_adapter = [&](const language::Config& described) {
    adapters::tell_adapter(say, "language.lora.", language::adapted_model(described), config.language.lora,
                           init_from.string());
  };
  if (init_from.empty())
    return tell_adapter(config.is_gpt2() ? config.model.gpt2 : config.language.model({}));
  const std::filesystem::path file = init_from / "config.json";
  const language::Config theirs = language::read_config(hugging_face::ConfigFile(file.string()));
  hugging_face::check_weights(init_from.string());
  if (theirs.architecture == "gpt2")
    tell_gpt2(say, file, theirs, config.model.gpt2);
  else
    language::tell_options(say, "language.", file, theirs, config.language);
  tell_adapter(theirs);
  tokenizer::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));

  const auto tell = [&](const char* key, const auto& value) { say(key, value, file); };
  SummarizationConfig run = config;
  if (!say.is_set("sequence.max_tokens") && run.sequence.max_tokens > theirs.max_position_embeddings)
    tell("sequence.max_tokens", run.sequence.max_tokens = theirs.max_position_embeddings);
  constexpr int64_t kSeparator = 8;  // what it has at most, about
  if (run.writing_problem(kSeparator).empty()) return;
  const int64_t quarter = std::max<int64_t>(run.sequence.max_tokens / 4, 1);
  tell("sequence.max_summary_tokens", std::min(run.sequence.max_summary_tokens, quarter));
  tell("generate.max_tokens", std::min(run.generate.max_tokens, quarter));
}

}  // namespace pipeline::tasks::summarization
