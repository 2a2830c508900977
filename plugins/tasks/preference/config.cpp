#include "plugins/tasks/preference/config.hpp"

#include "hugging_face/token_ids.hpp"

namespace pipeline::tasks::preference {

void DataOptions::describe(Options& o) {
  o("train", train,
    "pairs of answers to learn from, in JSON or Parquet: prompt, chosen and rejected, as texts or lists of "
    "messages; without a prompt chosen and rejected are whole conversations with the same beginning; kto "
    "also takes prompt, completion and label; a file, a folder, or a pattern such as data/train-*.parquet");
  o.group("source", source);
  describe_others(
      o,
      "in place of val: this share of train is evaluated and not learnt from; chosen by a hash of the first "
      "questions, so that equal ones stay together",
      "the same, to evaluate or predict at the end; empty: none");
  o("prompt_column", prompt_column, "column of the question");
  o("chosen_column", chosen_column, "column of the answer that is preferred");
  o("rejected_column", rejected_column, "column of the other");
  o("completion_column", completion_column, "kto: column of an answer that is judged by itself");
  o("label_column", label_column, "kto: column of the judgement, true or 1 where the answer is wanted");
}

void PreferenceConfig::validate(const ConfigErrors& errors) const {
  chat.require_room(errors, language, generate.max_tokens);
  const PreferenceOptions& wanted = preference;
  if (!wanted.is_reward() && wanted.padding >= 0)
    errors("preference.padding", "is of use with task.preference.loss = \"reward\" alone");
  if (wanted.is_reward() && !ask.prompt.empty())
    errors("ask.prompt", "a model that scores answers writes none");
  if (!wanted.reference.empty() && !wanted.has_reference())
    errors("preference.reference",
           concat("task.preference.loss = \"", wanted.loss, "\" has no reference: leave it out"));
  if (!wanted.has_reference() || has_second_model()) return;
  const auto refuse = [&](const char* key, const char* why) {
    errors(
        key,
        concat(
            why,
            ", so the model without LoRA is not what training begins with: name that as "
            "task.preference.reference (`pipeline export` with task.language.lora.merge = true makes it)"));
  };
  if (!language.lora.init_from.empty()) refuse("language.lora.init_from", "begins with an adapter");
  if (!language.lora.modules_to_save.empty())
    refuse("language.lora.modules_to_save", "trains parts of the model itself");
}

void PreferenceConfig::read_model(const PreferenceConfig& config, const std::filesystem::path& init_from,
                                  const ModelOptions& say) {
  bool is_reward = config.preference.is_reward();
  if (!init_from.empty() && !is_reward && !say.is_set("preference.loss")) {
    const std::filesystem::path file = init_from / "config.json";
    const auto label =
        language::read_config(hugging_face::ConfigFile(file.string()), language::Heads::kLabels).label;
    is_reward = label && label->are_numbers;
    if (is_reward) say("preference.loss", std::string("reward"), file);
  }
  const auto theirs = conversation::read_folder(
      config.chat, config.tokenizer, config.language, config.generate.max_tokens, init_from, say,
      is_reward ? language::Heads::kLabels : language::Heads::kWords);
  if (!is_reward || !theirs || !theirs->label) return;
  const auto padding = hugging_face::padding_of(init_from.string());
  say("preference.padding", padding.value_or(-1), init_from / "config.json");
}

}  // namespace pipeline::tasks::preference
