#include "plugins/tasks/embedding/config.hpp"

#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "plugins/models/sentence_encoder/folder.hpp"
#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::embedding {

namespace fs = std::filesystem;
using sentence_encoder::kPoolings;

void EmbeddingConfig::validate(const ConfigErrors& errors) const {
  if (is_language()) {
    language.require_positions(errors, "text.max_tokens", text.max_tokens);
    common::refuse_other_family(errors, true, "model",
                                static_cast<const encoder::TextEncoderOptions&>(model));
  } else {
    model.require_positions(errors, "text.max_tokens", text.max_tokens);
    common::refuse_other_family(errors, false, "language", language);
  }
  const int64_t width = encoder({1, 0, 0}).width();
  for (const int64_t dimensions : loss.matryoshka)
    if (dimensions < 1 || dimensions > width || std::ranges::count(loss.matryoshka, dimensions) > 1)
      errors("loss.matryoshka",
             concat("has ", dimensions, ": must be from 1 to the vectors' width (", width, "), each once"));
  if (!is_ranking() && loss.symmetric)
    errors("loss.symmetric", "is of no use with task.objective = \"similarity\"");
  if (!is_ranking() && !data.negative_column.empty())
    errors("data.negative_column", "is of no use with task.objective = \"similarity\"");
  if (data.negative_column.empty() && errors.is_set("data.negatives"))
    errors("data.negatives", "is of no use without task.data.negative_column");
  if (is_ranking() && errors.is_set("data.score_column"))
    errors("data.score_column", "is of no use with task.objective = \"ranking\"");
  if (predict.formats.empty()) errors("predict.formats", "must have a format for the vectors");
  if (query_column() == positive_column())
    errors("data.positive_column", concat("is task.data.query_column, too (\"", query_column(), "\")"));
}

sentence_encoder::Config EmbeddingConfig::encoder(const language::VocabularyOf& tokens) const {
  sentence_encoder::Config config{.kind = model.kind,
                                  .encoder = model.of(tokens.size),
                                  .projection_dim = model.projection_dim,
                                  .projection_has_bias = model.projection_bias,
                                  .projection_is_tanh = model.projection_activation == "tanh",
                                  .normalizes = model.normalize};
  for (const auto& [name, pooling] : kPoolings)
    if (this->pooling() == name) config.pooling = pooling;
  if (!is_language()) return config;
  config.language = language.model(tokens);
  config.language->is_headless = true;
  return config;
}

void EmbeddingConfig::read_model(const EmbeddingConfig& config, const fs::path& init_from,
                                 const ModelOptions& say) {
  std::optional<sentence_encoder::Folder> read;
  if (!init_from.empty()) read = sentence_encoder::read_folder(init_from, config.adapter());
  if (read ? read->config.language.has_value() : config.is_language())
    common::read_language_model(config.tokenizer, config.language, read ? read->encoder : init_from, say,
                                language::Heads::kNone);
  else
    tokenizer::check_tokenizer(say, config.tokenizer.path);
  if (!read) return;
  const sentence_encoder::Folder& folder = *read;
  const sentence_encoder::Config& theirs = folder.config;
  say("family", std::string(theirs.language ? "language" : "encoder"), folder.encoder / "config.json");
  if (!theirs.language)
    config.model.tell(say, {theirs.kind, theirs.encoder}, folder.encoder,
                      sentence_encoder::adapted_encoder(theirs));
  if (!folder.is_encoder_alone) {
    const hugging_face::FolderOptions parts(say, "model.", folder.modules / "modules.json");
    for (const auto& [name, pooling] : kPoolings)
      if (theirs.pooling == pooling) parts("pooling", std::string(name));
    parts("normalize", theirs.normalizes);
    parts("projection_dim", theirs.projection_dim);
    if (theirs.projection_dim > 0) {
      parts("projection_bias", theirs.projection_has_bias);
      parts("projection_activation", std::string(theirs.projection_is_tanh ? "tanh" : "none"));
    }
  }
  const int64_t positions =
      theirs.language ? theirs.language->max_position_embeddings : theirs.row().most_tokens(theirs.encoder);
  const int64_t most = folder.max_tokens.value_or(config.text.max_tokens);
  if (!say.is_set("text.max_tokens"))
    say("text.max_tokens", std::min(most, positions),
        most <= positions && folder.max_tokens ? folder.max_tokens_file : folder.encoder / "config.json");
  for (const auto& [key, prompt] : {std::pair("text.query_prompt", &folder.query_prompt),
                                    {"text.passage_prompt", &folder.passage_prompt}})
    if (!prompt->empty()) say(key, *prompt, folder.modules / "config_sentence_transformers.json");
  if (theirs.language) return;
  tokenizer::follow_tokenizer(say, folder.encoder, say.is_set("tokenizer.path"));
  hugging_face::check_weights(folder.encoder.string());
}

}  // namespace pipeline::tasks::embedding
