#include "language/folder.hpp"

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "heads/label_folder.hpp"
#include "language/architecture.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Piece;

// The name before which transformers' class of the layers alone has nothing: "model.".
std::string body_prefix(const Names& names) {
  const std::string_view embedding = names.embedding;
  return std::string(embedding.substr(0, embedding.find('.') + 1));
}

// How a folder's tensor is called in the folder of a whole model. Empty: it is passed over.
std::string plain_name(const Config& config, const std::string& name) {
  const Names& names = architecture(config.architecture).names;
  const std::string prefix = body_prefix(names);
  std::string plain = names.plain == nullptr ? name : names.plain(name);
  for (const std::string whole : {names.embedding, names.layers, names.last_norm})
    if (plain.starts_with(whole.substr(prefix.size()))) plain.insert(0, prefix);
  const bool is_tied = plain == kHead && config.tie_word_embeddings;
  return config.is_headless && !is_tied && !plain.starts_with(prefix) ? "" : plain;
}

// How the class of the layers alone calls what a whole model calls `name`.
std::string name_in_body(const Config& config, const std::string& name) {
  const std::string prefix = body_prefix(architecture(config.architecture).names);
  return config.is_headless && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

hugging_face::NameMap name_map(const LanguageModel& model, int64_t more_tokens = 0,
                               const FolderPart& part = {}) {
  const Names& names = model.architecture().names;
  const std::optional<heads::LabelForm>& label = model.config().label;
  const bool tied = model.config().tie_word_embeddings && !label;
  return {.pieces =
              [&model, more_tokens](const Parameter& p) {
                const std::string& prefix = model.place().prefix;
                return p.name.starts_with(prefix) && model.has_unit(p.unit)
                           ? pieces(p, model.config(), prefix, more_tokens)
                           : std::vector<Piece>();
              },
          .plain_name =
              [&model, name_of = part.name](const std::string& given) {
                const std::string name = name_of ? name_of(given) : given;
                return name.empty() ? name : plain_name(model.config(), name);
              },
          .value = heads::as_in_folder(
              label, [&model](const ParameterRegistry::Declared& p) { return model.merged(p); }),
          .head = tied ? kHead : "",
          .tied_to = tied ? names.embedding : ""};
}

}  // namespace

std::string objective_of(const heads::LabelForm& form) {
  return form.of == heads::LabelForm::Of::kParts ? "tags"
         : form.are_numbers                      ? "regression"
         : form.are_several                      ? "multi_label"
                                                 : "classification";
}

Config read_config(const ConfigFile& file, Heads heads) {
  std::vector<const char*> known;
  for (const Architecture* row : architectures()) known.push_back(row->name);
  const Architecture& row = architecture(file.type(known));
  Config config = row.config(file);
  config.is_headless = heads == Heads::kNone;
  if (config.is_headless) return config;
  if (heads == Heads::kLabels) config.label = heads::read_label(file, row.classes());
  // Weights with another head lack a language model's: said here, before any of them is looked for.
  std::vector<std::string> others{"ForQuestionAnswering"};
  if (!config.label) others.insert(others.end(), {"ForSequenceClassification", "ForTokenClassification"});
  if (const nlohmann::json* const classes = file.find("architectures"); classes && classes->is_array())
    for (const nlohmann::json& one : *classes)
      for (const std::string& task : others)
        if (one.is_string() && one.get_ref<const std::string&>().ends_with(task))
          file.fail("architectures",
                    "the folder's head is not a language model's: name the folder of the model "
                    "that it was made from");
  return config;
}

nlohmann::json config_json(const Config& config) { return architecture(config.architecture).json(config); }

void compare(const Config& ours, const Config& theirs, hugging_face::Differences& differences) {
  const auto compare_as = [&](const std::string& key, const auto& mine, const auto& other) {
    differences.compare("task.language." + key, mine, other);
  };
  compare_as("architecture", ours.architecture, theirs.architecture);
  if (ours.architecture != theirs.architecture) return;
  const Architecture& row = architecture(ours.architecture);
  hugging_face::ModelFields<Config> fields;
  for (const auto& field : model_fields())
    if (row.has(field)) fields.push_back(field);
  hugging_face::compare_fields(fields, ours, theirs, differences,
                               [](const auto& field) { return concat("task.language.", field.name); });
  if (row.is_rotary) compare_rope(ours.rope_scaling, theirs.rope_scaling, differences);
  if (!ours.label || !theirs.label) return;
  differences.compare("task.objective", objective_of(*ours.label), objective_of(*theirs.label));
  if (!heads::has_default_names(*theirs.label) || ours.label->outputs() != theirs.label->outputs())
    differences.compare("task.label.classes", ours.label->classes, theirs.label->classes);
}

std::vector<Piece> pieces(const Parameter& parameter, const Config& config, const std::string& prefix,
                          int64_t more_tokens) {
  if (parameter.name.starts_with("lora.")) return {};
  const Architecture& row = architecture(config.architecture);
  const Names& names = row.names;
  const std::string name = parameter.name.substr(prefix.size());
  if (heads::is_of_label_head(name)) return {{.name = name, .transposed = parameter.shape.size() == 2}};
  if (name == names.embedding || name == kHead) return {{.name = name, .more_rows = more_tokens}};
  const bool is_matrix = parameter.shape.size() == 2;
  if (!names.is_split) return {{.name = name, .transposed = is_matrix && names.is_transposed}};
  const auto parts = [&](std::string_view whole, const std::vector<hugging_face::MatrixPart>& all) {
    return hugging_face::side_by_side(name, whole.substr(whole.rfind('.') + 1), all,
                                      is_matrix && names.is_transposed);
  };
  const auto is = [&](const char* part) {
    return name.ends_with(std::string(part) + (is_matrix ? ".weight" : ".bias"));
  };
  if (is(names.qkv))
    return parts(
        names.qkv,
        {{"q_proj", config.query_width()}, {"k_proj", config.key_width()}, {"v_proj", config.key_width()}});
  if (is(names.up)) return parts(names.up, {{"gate_proj", config.inner()}, {"up_proj", config.inner()}});
  if (name.ends_with(kOffset)) return {{.name = name.substr(0, name.rfind('.')) + ".weight"}};
  return {{.name = name, .transposed = is_matrix && names.is_transposed}};
}

Config import_model(const std::string& folder, LanguageModel& model, const FolderPart& part) {
  const ConfigFile file(folder + "/config.json");
  const std::optional<heads::LabelForm>& label = model.config().label;
  const Config theirs = read_config(part.config.empty() ? file : file.part(part.config.c_str()),
                                    model.config().is_headless ? Heads::kNone
                                    : label                    ? Heads::kLabels
                                                               : Heads::kWords);
  hugging_face::Differences differences;
  compare(model.config(), theirs, differences);
  differences.raise(folder);
  const int64_t more = theirs.vocab_size - model.config().vocab_size;
  hugging_face::NameMap map = name_map(model, more, part);
  if (label) map = heads::with_label_head(std::move(map), *label, theirs.label.has_value());
  hugging_face::import_weights(folder, model.parameters(), map);
  return theirs;
}

std::string kept_weights(const std::string& folder, const LanguageModel& model, const FolderPart& part) {
  return hugging_face::kept_weights(folder, model.parameters(), name_map(model, 0, part), part.name);
}

nlohmann::ordered_json kept_config(const Config& config, nlohmann::ordered_json values) {
  const nlohmann::json ours = config_json(config);
  if (values.is_null()) {
    values = ours;
    const Architecture& row = architecture(config.architecture);
    values["architectures"] = {config.is_headless ? row.classes() + "Model" : row.model_class};
    return values;
  }
  const ConfigFile file = ConfigFile::of("config.json", values.dump());
  nlohmann::json theirs = config_json(read_config(file, Heads::kNone));
  nlohmann::json changed = ours;
  const auto is_rope = [](const std::string& key) { return key.starts_with("rope_"); };
  bool has_other_rope = false;
  for (const auto& [key, value] : ours.items())
    has_other_rope |= is_rope(key) && (!theirs.contains(key) || theirs[key] != value);
  if (has_other_rope)  // one of several forms to say it
    for (const char* key : {"rope_scaling", "rope_parameters", "rope_theta", "rope_local_base_freq"})
      values.erase(key), theirs.erase(key);
  for (const auto& [key, value] : ours.items())
    if (key.ends_with("_token_id")) changed.erase(key);
  hugging_face::take_changes(values, theirs, changed);
  return values;
}

std::vector<std::string> export_model(const std::string& folder, const LanguageModel& model,
                                      const hugging_face::FolderTexts& texts) {
  const hugging_face::Came came = hugging_face::came_from(texts, {model.architecture().name});
  const hugging_face::NameMap map = name_map(model);
  const hugging_face::ExportForm form = hugging_face::export_form(came.texts, model.parameters(), map);
  hugging_face::export_weights(folder, model.parameters(), map, {}, form);
  nlohmann::ordered_json config = kept_config(model.config(), came.config);
  if (const auto& label = model.config().label)
    config.update(nlohmann::ordered_json(heads::label_values(*label, model.architecture().classes())));
  hugging_face::write_config(folder, config, form);
  return hugging_face::notes_of(form);
}

std::string note_of_vocabulary(const std::string& folder, int64_t vocabulary, int64_t count, bool are_kept) {
  if (count == 0) return {};
  if (count < 0)
    return concat(folder, " has ", -count, " row(s) for which the tokenizer has no token, from number ",
                  vocabulary,
                  are_kept ? " on: they are kept, and never written in a text" : " on: they are left out");
  return concat("the tokenizer has ", count, " token(s) that ", folder, " does not have, from number ",
                vocabulary - count, " on: their rows start as the mean of the others");
}

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
    matrices = {{"self_attn.q_proj", &Layer::qkv_lora, 0, width, queries, true},
                {"self_attn.k_proj", &Layer::qkv_lora, queries, width, keys},
                {"self_attn.v_proj", &Layer::qkv_lora, queries + keys, width, keys, true}};
  else
    matrices = {{names.qkv, &Layer::qkv_lora, 0, width, queries + 2 * keys, true}};
  matrices.push_back({names.projection, &Layer::projection_lora, 0, queries, width});
  if (names.is_split) {
    matrices.push_back({"mlp.gate_proj", &Layer::up_lora, 0, width, inner});
    matrices.push_back({"mlp.up_proj", &Layer::up_lora, inner, width, inner});
  } else {
    matrices.push_back({names.up, &Layer::up_lora, 0, width, (row.gate ? 2 : 1) * inner});
  }
  matrices.push_back({names.down, &Layer::down_lora, 0, inner, width});
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    adapters::add_targets(all, name_in_body(config, concat(names.layers, i, ".")), i,
                          first_unit + static_cast<uint32_t>(i + 1), matrices);
  return all;
}

adapters::AdaptedModel adapted_model(const Config& config, const std::string& prefix) {
  const Names& names = architecture(config.architecture).names;
  const bool tied = config.tie_word_embeddings && !config.label && !config.is_headless;
  const char* const task_type = config.is_headless                                   ? "FEATURE_EXTRACTION"
                                : !config.label                                      ? "CAUSAL_LM"
                                : config.label->of == heads::LabelForm::Of::kSamples ? "SEQ_CLS"
                                                                                     : "TOKEN_CLS";
  return {.targets = lora_targets(config),
          .pieces =
              [config, prefix](const Parameter& p) {
                // Behind the layers are parts of a larger model.
                if (config.is_headless && p.unit > static_cast<uint32_t>(config.num_hidden_layers))
                  return std::vector<Piece>();
                std::vector<Piece> all = pieces(p, config, prefix);
                for (Piece& piece : all) piece.name = name_in_body(config, piece.name);
                return all;
              },
          .plain_name =
              [config](const std::string& name) { return name_in_body(config, plain_name(config, name)); },
          .value = heads::as_in_folder(config.label),
          .as_ours = heads::as_learnt(config.label),
          .task_type = task_type,
          .has_conv1d = !names.is_transposed,
          .head = tied ? kHead : "",
          .tied_to = tied ? name_in_body(config, names.embedding) : ""};
}

std::shared_ptr<LanguageModel> make_adapted(const Config& config, const adapters::LoraOptions& lora) {
  ParameterPlace place;
  place.registry->set_rule([&](Parameter& parameter) {
    if (heads::is_of_label_head(parameter.name)) parameter.is_new = parameter.droppable = true;
    parameter.trainable = adapters::is_trained(parameter, lora);
  });
  auto model = std::make_shared<LanguageModel>(config, place, lora);
  place.registry->set_rule(nullptr);
  start_from_adapter(*model, lora);
  return model;
}

std::unique_ptr<LanguageModel> make_frozen(LanguageModel& beside, const Config& config,
                                           const std::string& prefix, bool is_droppable) {
  ParameterRegistry& registry = beside.parameters();
  registry.set_rule([is_droppable](Parameter& parameter) {
    parameter.trainable = false;
    parameter.is_new = true;
    parameter.droppable = is_droppable;
  });
  auto model = std::make_unique<LanguageModel>(
      config, ParameterPlace{.registry = beside.place().registry,
                             .prefix = prefix,
                             .first_unit = static_cast<uint32_t>(beside.layer_count() + 1)});
  registry.set_rule(nullptr);
  return model;
}

void start_from_adapter(LanguageModel& model, const adapters::LoraOptions& lora) {
  lora.start(model.parameters(), adapted_model(model.config()));
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
  if (const auto& label = model.config().label)
    heads::write_adapter_label(folder, *label, model.architecture().classes());
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
