#include "plugins/models/encoder/text_folder.hpp"

#include <algorithm>

#include "core/safetensors/file.hpp"
#include "heads/label_folder.hpp"

namespace pipeline::encoder {
namespace {

namespace fs = std::filesystem;
using hugging_face::ConfigFile;
using hugging_face::Piece;

struct Checked {
  const Architecture& row;
  Config config;
  void check() const { row.check(config); }
};

bool begins_with_any(const std::string& name, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return name.starts_with(part); });
}

// What parameters are called that a folder has under this name; empty: it is none of theirs.
std::string own_name(const Architecture& row, const Head& head, const std::string& name) {
  const std::string& prefix = head.prefix;
  for (const std::string& one : {name, prefix + name})
    if (begins_with_any(one, head.parts) || (one == head.tied && !one.empty())) return one;
  const std::string plain = row.plain_name(name);
  return plain.empty() ? "" : prefix + plain;
}

Config read_config(const Architecture& row, const ConfigFile& file) {
  Config config = row.read(file, row.theirs);
  if (row.read_more != nullptr) row.read_more(file, config);
  return config;
}

}  // namespace

hugging_face::NameMap encoder_map(const Architecture& row, const Head& head, int64_t more_tokens) {
  const std::string& prefix = head.prefix;
  return {.pieces = [&row, head, prefix, more_tokens](const Parameter& parameter) -> std::vector<Piece> {
            const std::string& name = parameter.name;
            if (begins_with_any(name, head.parts))
              return {{.name = name,
                       .transposed = parameter.shape.size() == 2,
                       .more_rows = name == head.by_token ? more_tokens : 0}};
            if (!name.starts_with(prefix) || row.plain_name(name).empty()) return {};
            return row.pieces(parameter, prefix, more_tokens);
          },
          .plain_name = [&row, head](const std::string& name) { return own_name(row, head, name); },
          .value = heads::as_in_folder(head.label),
          .as_ours = heads::as_learnt(head.label),
          .head = head.tied,
          .tied_to = head.tied.empty() ? "" : prefix + row.names.words};
}

EncoderFolder read_encoder_folder(const fs::path& folder) {
  const ConfigFile file((folder / "config.json").string());
  const std::string kind = file.type({kTextEncoders.begin(), kTextEncoders.end()});
  const Architecture& row = text_encoder(kind);
  Config config = read_config(row, file);
  config.label = heads::read_label(file, row.classes);
  return {kind, file.checked(Checked{row, config}).config};
}

bool is_encoder_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored)) return false;
  std::string type;
  ConfigFile((folder / "config.json").string()).read("model_type", type);
  return std::ranges::find(kTextEncoders, type) != kTextEncoders.end();
}

void require_same_encoder(const std::string& table, const Architecture& row, const Config& config,
                          const EncoderFolder& theirs, const std::string& folder) {
  hugging_face::Differences differences;
  differences.compare(table + "kind", row.name, theirs.kind);
  if (theirs.kind == row.name) row.compare(table, config, theirs.config, differences);
  differences.raise(folder);
}

adapters::AdaptedModel adapted_encoder(const Architecture& row, const Config& config, const Head& head,
                                       const char* task_type) {
  const hugging_face::NameMap map = encoder_map(row, head);
  return {.targets = row.lora_targets(config, head.prefix),
          .others = head.parts,
          .pieces = map.pieces,
          .plain_name = map.plain_name,
          .value = heads::as_in_folder(head.label),
          .as_ours = map.as_ours,
          .task_type = task_type,
          .head = map.head,
          .tied_to = map.tied_to};
}

std::vector<std::string> parts_in(const fs::path& folder, const Architecture& row, const Head& head) {
  std::vector<std::string> there;
  const std::vector<std::string> names = safetensors::Folder::open(folder.string()).names();
  for (const std::string& part : head.parts)
    if (std::ranges::any_of(
            names, [&](const std::string& name) { return own_name(row, head, name).starts_with(part); }))
      there.push_back(part);
  return there;
}

void import_encoder(const fs::path& folder, const Architecture& row, const Head& head,
                    ParameterRegistry& parameters, int64_t more_tokens) {
  hugging_face::import_weights(folder.string(), parameters, encoder_map(row, head, more_tokens));
}

// Without heads of other kinds.
std::string kept_weights(const fs::path& folder, const Architecture& row, const Head& head,
                         const ParameterRegistry& parameters) {
  return hugging_face::kept_weights(
      folder.string(), parameters, encoder_map(row, head),
      [&](const std::string& name) { return own_name(row, head, name).empty() ? "" : name; });
}

std::vector<std::string> export_encoder(const fs::path& folder, const Architecture& row, const Config& config,
                                        const Head& head, const Encoder& encoder,
                                        const ParameterRegistry& parameters, const nlohmann::json& values,
                                        const adapters::LoraOptions& lora,
                                        const adapters::AdaptedModel& adapted,
                                        const hugging_face::FolderTexts& texts) {
  if (lora.exports_adapter()) {
    if (head.label) heads::write_adapter_label(folder.string(), *head.label, row.classes);
    adapters::export_adapter(folder.string(), parameters, lora, adapted, lora.base_model);
    return {};
  }
  const hugging_face::Came came = hugging_face::came_from(texts, {row.type});
  hugging_face::NameMap map = encoder_map(row, head);
  map.value = heads::as_in_folder(head.label, [&encoder](const ParameterRegistry::Declared& parameter) {
    return encoder.merged(parameter);
  });
  const hugging_face::ExportForm form = hugging_face::export_form(came.texts, parameters, map);
  hugging_face::export_weights(folder.string(), parameters, map, {}, form);
  nlohmann::ordered_json all = kept_config(row, config, came.config);
  all.update(nlohmann::ordered_json(values));
  hugging_face::write_config(folder.string(), all, form);
  std::vector<std::string> notes = hugging_face::notes_of(form);
  if (const std::string note = lora.export_note(); !note.empty()) notes.push_back(note);
  return notes;
}

nlohmann::ordered_json kept_config(const Architecture& row, const Config& config,
                                   const nlohmann::ordered_json& came) {
  if (came.is_null()) return row.json(config);
  const auto file = ConfigFile::of("config.json", came.dump());
  nlohmann::ordered_json values = came;
  hugging_face::take_changes(values, row.json(read_config(row, file)), row.json(config));
  return values;
}

}  // namespace pipeline::encoder
