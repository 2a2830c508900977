#include "language/adapter.hpp"

#include "language/architecture.hpp"
#include "language/folder.hpp"

namespace pipeline::language {

using adapters::LoraTarget;
using transformer::Layer;

std::vector<LoraTarget> lora_targets(const Config& config, uint32_t first_unit) {
  const Architecture& row = architecture(config.architecture);
  const Names& names = row.names;
  const int64_t width = config.hidden_size, queries = config.query_width(), keys = config.key_width(),
                inner = config.inner();
  std::vector<LoraTarget> all;
  std::vector<adapters::LayerMatrix> matrices;
  if (names.is_split)
    matrices = {{"self_attn.q_proj", &Layer::qkv_additions, 0, width, queries, true},
                {"self_attn.k_proj", &Layer::qkv_additions, queries, width, keys},
                {"self_attn.v_proj", &Layer::qkv_additions, queries + keys, width, keys, true}};
  else
    matrices = {{names.qkv, &Layer::qkv_additions, 0, width, queries + 2 * keys, true}};
  matrices.push_back({names.projection, &Layer::projection_additions, 0, queries, width});
  if (names.is_split) {
    matrices.push_back({"mlp.gate_proj", &Layer::up_additions, 0, width, inner});
    matrices.push_back({"mlp.up_proj", &Layer::up_additions, inner, width, inner});
  } else {
    matrices.push_back({names.up, &Layer::up_additions, 0, width, (row.is_gated ? 2 : 1) * inner});
  }
  matrices.push_back({names.down, &Layer::down_additions, 0, inner, width});
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    adapters::add_targets(all, concat(names.layers, i, "."), i, first_unit + static_cast<uint32_t>(i + 1),
                          matrices);
  return all;
}

adapters::AdaptedModel adapted_model(const Config& config, const std::string& prefix) {
  const Names& names = architecture(config.architecture).names;
  const bool tied = config.tie_word_embeddings;
  return {.targets = lora_targets(config),
          .pieces = [config, prefix](const Parameter& p) { return pieces(p, config, prefix); },
          .plain_name = names.plain,
          .has_conv1d = !names.is_transposed,
          .head = tied ? kHead : "",
          .tied_to = tied ? names.embedding : ""};
}

std::shared_ptr<LanguageModel> make_adapted(const Config& config, const adapters::LoraOptions& lora) {
  ParameterPlace place;
  place.registry->set_rule(
      [&](Parameter& parameter) { parameter.trainable = adapters::is_trained(parameter, lora); });
  auto model = std::make_shared<LanguageModel>(config, place, lora);
  place.registry->set_rule(nullptr);
  start_from_adapter(*model, lora);
  return model;
}

void start_from_adapter(LanguageModel& model, const adapters::LoraOptions& lora) {
  if (lora.init_from.empty()) return;
  if (lora.rank == 0)
    fail_with(PL_ERROR_CONFIG, "lora.rank = 0: must be that of the adapter, ", lora.init_from.string());
  adapters::start_from_adapter(lora.init_from.string(), model.parameters(), adapted_model(model.config()));
}

std::string warning_of_new_tokens(const LanguageModel& model, int64_t count) {
  if (count <= 0 || model.token_embedding().requires_grad()) return {};
  const std::string embedding = model.architecture().names.embedding;  // "model.embed_tokens.weight"
  const size_t end = embedding.rfind('.'), begin = embedding.rfind('.', end - 1) + 1;
  return concat("the rows of the tokenizer's ", count,
                " new token(s) are frozen with the model, and no adapter has them: "
                "train them with task.language.lora.modules_to_save = [\"",
                embedding.substr(begin, end - begin),
                model.config().tie_word_embeddings ? "\"]" : "\", \"lm_head\"]");
}

std::vector<std::string> export_model(const std::string& folder, const LanguageModel& model,
                                      const adapters::LoraOptions& lora,
                                      const hugging_face::FolderTexts& came) {
  if (!lora.exports_adapter()) return export_model(folder, model, came);
  adapters::export_adapter(folder, model.parameters(), lora, adapted_model(model.config()), lora.base_model);
  return {};
}

void export_model(const std::filesystem::path& folder, const LanguageModel& model,
                  const adapters::LoraOptions& lora, const hugging_face::FolderTexts& came,
                  const hugging_face::OwnTokens& own, const std::function<void(const std::string&)>& log) {
  if (const std::string note = lora.export_note(); !note.empty()) log(note);
  for (const std::string& note : export_model(folder.string(), model, lora, came)) log(note);
  if (lora.exports_adapter()) return;  // config.json is the model's
  hugging_face::write_token_ids(folder.string(), came, own);
}

}  // namespace pipeline::language
