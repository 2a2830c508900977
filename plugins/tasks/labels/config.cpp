#include "plugins/tasks/labels/config.hpp"

#include "heads/label_folder.hpp"
#include "hugging_face/weights.hpp"
#include "language/architecture.hpp"
#include "plugins/models/encoder/label_encoder.hpp"
#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::labels {

void LabelsConfig::validate(const ConfigErrors& errors) const {
  is_language() ? common::refuse_other_family(errors, true, "encoder", encoder)
                : common::refuse_other_family(errors, false, "language", language);
  if (is_language())
    language.require_positions(errors, "sequence.max_tokens", sequence.max_tokens);
  else
    encoder.require_positions(errors, "sequence.max_tokens", sequence.max_tokens);
  for (const auto& [key, is_plain] : {std::pair("label.classes", label.classes.empty()),
                                      {"label.class_weights", label.class_weights == "none"}})
    if (are_numbers() && !is_plain) errors(key, "is of no use with task.objective = \"regression\"");
  if (are_tags() && !data.pair_column.empty())
    errors("data.pair_column", "is of no use with task.objective = \"tags\"");
  for (const auto& [key, name] : {std::pair("text_column", data.text_column),
                                  {"pair_column", data.pair_column},
                                  {"id_column", data.id_column}})
    if (label.column == name)
      errors("label.column", concat("is the column of task.data.", key, ": labels need one of their own"));
}

void LabelsConfig::read_model(const LabelsConfig& config, const std::filesystem::path& init_from,
                              const ModelOptions& say) {
  const auto tell = [&](const char* key, const auto& value) { say(key, value, init_from / "config.json"); };
  std::optional<heads::LabelForm> label;
  int64_t most = 0;
  if (!init_from.empty() && encoder::is_encoder_folder(init_from)) {
    const encoder::EncoderFolder theirs = encoder::read_encoder_folder(init_from);
    tell("family", std::string("encoder"));
    tokenizer::check_tokenizer(say, config.tokenizer.path);
    const encoder::Architecture& row = encoder::text_encoder(theirs.kind);
    label = theirs.config.label
                ? theirs.config.label
                : heads::read_adapter_label(config.encoder.lora.init_from.string(), row.classes);
    encoder::Config adapted = theirs.config;
    if (!adapted.label) adapted.label = label.value_or(heads::LabelForm{});
    config.encoder.tell(say, theirs, init_from, encoder::LabelEncoder::adapted(row, adapted));
    tokenizer::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));
    hugging_face::check_weights(init_from.string());
    most = encoder::text_encoder(theirs.kind).most_tokens(theirs.config);
  } else {
    const auto theirs = common::read_language_model(config.tokenizer, config.language, init_from, say,
                                                    language::Heads::kLabels);
    if (!theirs) return;
    tell("family", std::string("language"));
    label = theirs->label ? theirs->label
                          : heads::read_adapter_label(config.language.lora.init_from.string(),
                                                      language::architecture(theirs->architecture).classes());
    most = theirs->max_position_embeddings;
  }
  if (label) {
    tell("objective", language::objective_of(*label));
    const bool are_renamed = say.is_set("label.classes") && heads::has_default_names(*label) &&
                             config.label.classes.size() == label->classes.size();
    if (!label->classes.empty() && !are_renamed) tell("label.classes", label->classes);
  }
  if (!say.is_set("sequence.max_tokens") && config.sequence.max_tokens > most)
    tell("sequence.max_tokens", most);
}

}  // namespace pipeline::tasks::labels
