#include "plugins/models/sentence_encoder/folder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "files/regular_file.hpp"
#include "hugging_face/config_file.hpp"
#include "hugging_face/export_form.hpp"
#include "hugging_face/weights.hpp"
#include "language/architecture.hpp"
#include "language/folder.hpp"
#include "plugins/models/encoder/text_folder.hpp"

namespace pipeline::sentence_encoder {
namespace {

namespace fs = std::filesystem;

using hugging_face::ConfigFile;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char *kModules = "modules.json", *kProjection = "projection.",
                     *kPrompts = "config_sentence_transformers.json", *kText = "sentence_bert_config.json";
// kPoolings in older versions, a flag for each; what has no number here is not computed.
constexpr std::array<std::pair<const char*, int>, 6> kFlags{{{"pooling_mode_mean_tokens", 0},
                                                             {"pooling_mode_cls_token", 1},
                                                             {"pooling_mode_lasttoken", 2},
                                                             {"pooling_mode_max_tokens", -1},
                                                             {"pooling_mode_mean_sqrt_len_tokens", -1},
                                                             {"pooling_mode_weightedmean_tokens", -1}}};
constexpr const char *kTanh = "torch.nn.modules.activation.Tanh",
                     *kIdentity = "torch.nn.modules.linear.Identity";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

struct Module {
  std::string type;  // the last part of its class's name
  fs::path path;
};

std::vector<Module> modules_of(const fs::path& folder) {
  const std::string path = (folder / kModules).string();
  const auto refuse = [&](const std::string& problem) { fail_with(PL_ERROR_CONFIG, path, ": ", problem); };
  const json list = strict_json::parse(files::read_regular(path, files::kMostSettings), path);
  if (!list.is_array()) refuse("must be a list of modules");
  std::vector<Module> modules;
  for (const json& one : list) {
    const json type = one.is_object() ? one.value("type", json()) : json(),
               own = one.is_object() ? one.value("path", json()) : json();
    if (!type.is_string() || !own.is_string()) refuse("has a module without type or path");
    const std::string name = type;
    modules.push_back({name.substr(name.rfind('.') + 1), folder / std::string(own)});
    if (const fs::path place = own.get<std::string>();
        place.is_absolute() || place.lexically_normal().string().starts_with(".."))
      refuse(concat("module ", name, " is in ", std::string(own), ", which is not within the folder"));
  }
  return modules;
}

Pooling read_pooling(const fs::path& folder) {
  const ConfigFile file((folder / "config.json").string());
  hugging_face::check_only(file, "include_prompt", hugging_face::only({true}));
  std::string name;
  file.read("pooling_mode", name);
  if (!name.empty()) {
    const auto* const found =
        std::ranges::find_if(kPoolings, [&](const auto& one) { return one.first == name; });
    if (found == kPoolings.end()) file.fail("pooling_mode", "must be mean, cls or lasttoken");
    return found->second;
  }
  std::optional<Pooling> pooling;
  for (const auto& [key, number] : kFlags) {
    bool is_set = false;
    file.read(key, is_set);
    if (!is_set) continue;
    if (number < 0 || pooling)
      file.fail(key, "must be false: one of mean, cls and lasttoken is computed here");
    pooling = kPoolings.at(static_cast<size_t>(number)).second;
  }
  if (!pooling) file.fail_missing("pooling_mode_mean_tokens", "must be true, or another way of pooling");
  return *pooling;
}

void read_projection(const fs::path& folder, Config& config) {
  const ConfigFile file((folder / "config.json").string());
  int64_t in = config.pooled_width();
  file.read("in_features", in);
  if (in != config.pooled_width())
    file.fail("in_features", concat("must be the width of the encoder (", config.pooled_width(), ")"));
  file.read("out_features", config.projection_dim);
  if (config.projection_dim <= 0) file.fail_missing("out_features", "must be the width of vectors");
  file.read("bias", config.projection_has_bias);
  std::string activation = kTanh;
  file.read("activation_function", activation);
  if (activation != kTanh && activation != kIdentity)
    file.fail("activation_function", concat("must be ", kTanh, " or ", kIdentity));
  config.projection_is_tanh = activation == kTanh;
}

void take_encoder(Folder& folder) {
  if (!encoder::is_encoder_folder(folder.encoder)) {
    const ConfigFile file((folder.encoder / "config.json").string());
    std::vector<const char*> known(encoder::kTextEncoders.begin(), encoder::kTextEncoders.end());
    for (const language::Architecture* row : language::architectures()) known.push_back(row->name);
    static_cast<void>(file.type(known));
    folder.config.language = language::read_config(file, language::Heads::kNone);
    return;
  }
  encoder::EncoderFolder read = encoder::read_encoder_folder(folder.encoder);
  folder.config.kind = std::move(read.kind);
  folder.config.encoder = std::move(read.config);
}

// Reads what stands behind the encoder, in this order: pooling, a projection, the length. is_adapter: the
// encoder was read.
void read_modules(const fs::path& path, Folder& folder, bool is_adapter) {
  const std::vector<Module> modules = modules_of(path);
  constexpr std::array<std::string_view, 4> kOrder{"Transformer", "Pooling", "Dense", "Normalize"};
  size_t next = 0;
  folder.config.normalizes = false;
  folder.config.projection_dim = 0;
  folder.projection.clear();
  for (const Module& module : modules) {
    const auto* const place = std::ranges::find(kOrder, module.type);
    const auto at = static_cast<size_t>(place - kOrder.begin());
    if (place == kOrder.end() || at < next || (at > 0 && next == 0))
      fail_with(
          PL_ERROR_CONFIG, (path / kModules).string(), ": has a module ", module.type,
          ": must be one each of Transformer, Pooling, Dense and Normalize, in this order, of which the "
          "last two may be missing");
    next = at + 1;
    if (module.type == "Transformer") {
      if (is_adapter) continue;
      folder.encoder = module.path;
      take_encoder(folder);
    } else if (module.type == "Pooling") {
      folder.config.pooling = read_pooling(module.path);
    } else if (module.type == "Dense") {
      folder.projection = module.path;
      read_projection(module.path, folder.config);
    } else {
      folder.config.normalizes = true;
    }
  }
  if (next < 2) fail_with(PL_ERROR_CONFIG, (path / kModules).string(), ": must have Transformer and Pooling");
}

void read_prompts(const fs::path& path, Folder& folder) {
  if (!is_there(path / kPrompts)) return;
  const ConfigFile file((path / kPrompts).string());
  hugging_face::check_only(file, "truncate_dim", hugging_face::only({nullptr}));
  const json* const prompts = file.find("prompts");
  if (prompts == nullptr || !prompts->is_object()) return;
  std::string usual;
  file.read("default_prompt_name", usual);
  // The first that is there, be it empty.
  const auto prompt = [&](std::initializer_list<const char*> names) {
    for (const std::string name : names) {
      const auto found = prompts->find(name);
      if (found == prompts->end() || found->is_null()) continue;
      if (!found->is_string()) file.fail("prompts." + name, "must be a text");
      return found->get<std::string>();
    }
    return std::string();
  };
  folder.query_prompt = prompt({"query", usual.c_str()});
  folder.passage_prompt = prompt({"document", "passage", "corpus", usual.c_str()});
}

void read_text_rules(const fs::path& path, Folder& folder) {
  for (const char* name : {kText, "sentence_roberta_config.json", "sentence_distilbert_config.json",
                           "sentence_xlm-roberta_config.json", "tokenizer_config.json"}) {
    const fs::path place = folder.encoder / name;
    if (!is_there(place)) continue;
    const ConfigFile file(place.string());
    if (place.filename() != "tokenizer_config.json") {
      hugging_face::check_only(file, "do_lower_case", hugging_face::only({false}));
      if (int64_t most = 0; file.read("max_seq_length", most), most > 0 && !folder.max_tokens)
        folder.max_tokens = most, folder.max_tokens_file = place;
      continue;
    }
    hugging_face::check_only(file, "truncation_side", hugging_face::only({"right"}));
    if (const json* const most = file.find("model_max_length");
        !folder.max_tokens && most != nullptr && most->is_number_unsigned()) {
      folder.max_tokens =
          static_cast<int64_t>(std::min<uint64_t>(most->get<uint64_t>(), encoder::kMostWidth));
      folder.max_tokens_file = place;
    }
  }
  read_prompts(path, folder);
}

hugging_face::NameMap projection_map() {
  return {.pieces = [](const Parameter& parameter) {
    if (!parameter.name.starts_with(kProjection)) return std::vector<hugging_face::Piece>();
    return std::vector<hugging_face::Piece>{
        {.name = "linear." + hugging_face::after(parameter.name, kProjection),
         .transposed = parameter.shape.size() == 2}};
  }};
}

ordered_json modules_json(const Config& config) {
  ordered_json modules = ordered_json::array();
  const auto add = [&](const char* type, const char* path) {
    modules.push_back({{"idx", modules.size()},
                       {"name", std::to_string(modules.size())},
                       {"path", path},
                       {"type", concat("sentence_transformers.models.", type)}});
  };
  add("Transformer", "");
  add("Pooling", "1_Pooling");
  if (config.projection_dim > 0) add("Dense", "2_Dense");
  if (config.normalizes) add("Normalize", config.projection_dim > 0 ? "3_Normalize" : "2_Normalize");
  return modules;
}

ordered_json pooling_json(const Config& config) {
  ordered_json values{{"word_embedding_dimension", config.pooled_width()}};
  for (const auto& [key, number] : kFlags)
    values[key] = number >= 0 && kPoolings.at(static_cast<size_t>(number)).second == config.pooling;
  values["include_prompt"] = true;
  return values;
}

// The prompts, in what the folder that the model came from says besides.
ordered_json prompts_json(const TextRules& rules, const hugging_face::FolderTexts& came) {
  ordered_json values{{"prompts", ordered_json::object()},
                      {"default_prompt_name", nullptr},
                      {"similarity_fn_name", "cosine"}};
  if (const auto found = came.find(kPrompts); found != came.end())
    if (const auto theirs = ordered_json::parse(found->second, nullptr, /*allow_exceptions=*/false);
        theirs.is_object())
      values.update(theirs);
  if (!values["prompts"].is_object()) values["prompts"] = ordered_json::object();
  values["prompts"]["query"] = rules.query_prompt;
  values["prompts"]["document"] = rules.passage_prompt;
  return values;
}

void write_json(const fs::path& path, const ordered_json& values) {
  std::error_code ignored;
  fs::create_directory(path.parent_path(), ignored);
  hugging_face::write_text(path.string(), values.dump(2) + "\n");
}

}  // namespace

Folder read_folder(const fs::path& path, const fs::path& adapter) {
  Folder folder{.config = {}, .modules = path, .encoder = path, .projection = {}};
  folder.is_encoder_alone = !is_there(path / kModules);
  if (folder.is_encoder_alone) {
    take_encoder(folder);
  } else {
    read_modules(path, folder, /*is_adapter=*/false);
  }
  read_text_rules(path, folder);
  if (adapter.empty() || !is_there(adapter / kModules)) return folder;
  folder.is_encoder_alone = false;
  folder.modules = adapter;
  read_modules(adapter, folder, /*is_adapter=*/true);
  read_prompts(adapter, folder);
  return folder;
}

Folder import_model(const fs::path& path, SentenceEncoder& model, const fs::path& adapter) {
  const Config& ours = model.config();
  Folder folder = read_folder(path, adapter);
  const Config& theirs = folder.config;
  hugging_face::Differences differences;
  if (!ours.language) {
    differences.compare("task.model.kind", ours.kind, theirs.kind);
    if (ours.kind == theirs.kind)
      ours.row().compare("task.model.", ours.encoder, theirs.encoder, differences);
  }
  const bool begins_projection = folder.projection.empty() && ours.projection_dim > 0;
  if (!folder.projection.empty()) {
    differences.compare("task.model.projection_dim", ours.projection_dim, theirs.projection_dim);
    differences.compare("task.model.projection_bias", ours.projection_has_bias, theirs.projection_has_bias);
  }
  differences.raise(path.string());
  if (!ours.language) {
    encoder::import_encoder(folder.encoder, ours.row(), {}, model.parameters(),
                            theirs.encoder.vocab_size - ours.encoder.vocab_size);
    model.lora().start(model.parameters(), adapted_encoder(ours));
  }
  if (ours.projection_dim > 0 && !begins_projection)
    hugging_face::import_weights(folder.projection.string(), model.parameters(), projection_map());
  return folder;
}

std::string kept_weights(const Folder& folder, const SentenceEncoder& model) {
  return hugging_face::kept_weights(folder.encoder.string(), model.parameters(),
                                    encoder::encoder_map(model.config().row(), {}));
}

std::vector<std::string> export_model(const fs::path& path, const SentenceEncoder& model,
                                      const TextRules& rules, const hugging_face::FolderTexts& texts) {
  const Config& config = model.config();
  std::vector<std::string> notes;
  if (!config.language)
    notes =
        encoder::export_encoder(path, config.row(), config.encoder, {}, model.encoder(), model.parameters(),
                                nlohmann::json::object(), model.lora(), adapted_encoder(config), texts);
  write_json(path / kModules, modules_json(config));
  write_json(path / "1_Pooling" / "config.json", pooling_json(config));
  if (config.projection_dim > 0) {
    write_json(path / "2_Dense" / "config.json",
               {{"in_features", config.pooled_width()},
                {"out_features", config.projection_dim},
                {"bias", config.projection_has_bias},
                {"activation_function", config.projection_is_tanh ? kTanh : kIdentity}});
    hugging_face::export_weights((path / "2_Dense").string(), model.parameters(), projection_map());
  }
  write_json(path / kText, {{"max_seq_length", rules.max_tokens}, {"do_lower_case", false}});
  write_json(path / kPrompts, prompts_json(rules, texts));
  return notes;
}

}  // namespace pipeline::sentence_encoder
