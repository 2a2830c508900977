#include "plugins/models/encoder/masked_encoder.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "hugging_face/export_form.hpp"

namespace pipeline::encoder {
namespace {

namespace fs = std::filesystem;
using hugging_face::Piece;

struct Checked {
  const Architecture& row;
  Config config;
  void check() const { row.check(config); }
};

bool is_of_head(const Architecture& row, const std::string& name) {
  return !name.starts_with(row.names.in_folder);
}

// has_head: whether the folder's is read.
hugging_face::NameMap name_map(const Architecture& row, bool has_head, int64_t more_tokens) {
  const std::string prefix = row.names.in_folder;
  return {.pieces =
              [&row, prefix, has_head, more_tokens](const Parameter& parameter) -> std::vector<Piece> {
            if (!is_of_head(row, parameter.name)) return row.pieces(parameter, prefix, more_tokens);
            if (!has_head) return {};
            const bool is_by_token = parameter.name == row.names.head_bias;
            return {{.name = parameter.name,
                     .transposed = parameter.shape.size() == 2,
                     .more_rows = is_by_token ? more_tokens : 0}};
          },
          // The encoder by itself has no prefix.
          .plain_name =
              [&row, prefix, has_head](const std::string& name) {
                const auto is = [&](const char* part) { return name.starts_with(part); };
                if (const std::string plain = row.plain_name(name); !plain.empty()) return prefix + plain;
                const bool is_heads = has_head && (is(row.names.head_dense) || is(row.names.head_norm) ||
                                                   is(row.names.head_bias) || is(row.names.tied_head));
                return is_heads ? name : std::string();
              },
          .head = has_head ? row.names.tied_head : "",
          .tied_to = has_head ? prefix + row.names.words : ""};
}

bool has_head(const Architecture& row, const fs::path& folder) {
  const auto files = safetensors::Folder::open(folder.string());
  return files.find(row.names.head_bias) != nullptr;
}

}  // namespace

MaskedEncoder::MaskedEncoder(const std::string& kind, const Config& config)
    : row_(text_encoder(kind)), config_(config) {
  // What an encoder is trained with and what it is then used for need not be the same.
  registry_->set_rule([this](Parameter& parameter) { parameter.droppable = is_of_head(row_, parameter.name); });
  encoder_.emplace(row_, config_, *registry_, row_.names.in_folder);
  head_ = TokenHead(row_, config_, *registry_, encoder_->words());
}

at::Tensor MaskedEncoder::body(const transformer::PackedBatch& batch, const ForwardPass& pass) const {
  return transformer::run_layers(encoder_->layers(), encoder_->embedded(batch.tokens, batch.positions, pass),
                                 encoder_->layer_pass(batch.sequences), pass, *registry_, batch.target_rows);
}

LossSum MaskedEncoder::loss(const transformer::PackedBatch& batch, const ForwardPass& pass,
                            const at::Tensor& row_losses) const {
  const Tensors out = pass.run_once(0,
                                    [&](const Tensors& in) {
                                      const LossSum loss =
                                          head_.loss(in[0], {}, batch.targets, pass, row_losses);
                                      return Tensors{loss.sum, loss.scaled};
                                    },
                                    {body(batch, pass)});
  return {out[0], out[1]};
}

at::Tensor MaskedEncoder::logits(const transformer::PackedBatch& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  return pass.run_once(
      0, [&](const Tensors& in) { return Tensors{head_.logits(in[0], {}, pass.compute)}; }, {body(batch, pass)})[0];
}

double MaskedEncoder::flops(const transformer::PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.hidden_size);
  return encoder_->flops(batch.sequences) +
         3 * 2 * static_cast<double>(batch.target_rows.size()) * width *
             (width + static_cast<double>(head_.tokens()));
}

EncoderFolder read_encoder_folder(const fs::path& folder) {
  const hugging_face::ConfigFile file((folder / "config.json").string());
  const std::string kind = file.type({kTextEncoders.begin(), kTextEncoders.end()});
  const Architecture& row = text_encoder(kind);
  return {kind, file.checked(Checked{row, row.read(file, row.theirs)}).config};
}

Config import_masked(const fs::path& folder, MaskedEncoder& model, bool& with_head) {
  const EncoderFolder theirs = read_encoder_folder(folder);
  const Architecture& row = model.row();
  hugging_face::Differences differences;
  differences.compare("task.model.kind", row.name, theirs.kind);
  if (theirs.kind == row.name) row.compare("task.model.", model.config(), theirs.config, differences);
  differences.raise(folder.string());
  with_head = has_head(row, folder);
  const int64_t more = theirs.config.vocab_size - model.config().vocab_size;
  hugging_face::import_weights(folder.string(), model.parameters(), name_map(row, with_head, more));
  return theirs.config;
}

std::string kept_weights(const fs::path& folder, const MaskedEncoder& model) {
  const Architecture& row = model.row();
  // Some folders have the head's bias a second time.
  const std::string twin = std::string(row.names.tied_head).substr(0, std::string(row.names.tied_head).rfind('.')) + ".bias";
  return hugging_face::kept_weights(
      folder.string(), model.parameters(), name_map(row, true, 0),
      [&](const std::string& name) { return name == twin && twin != row.names.head_bias ? "" : name; });
}

nlohmann::ordered_json kept_config(const Architecture& row, const Config& config,
                                   const nlohmann::ordered_json& came) {
  if (came.is_null()) return row.json(config);
  const auto file = hugging_face::ConfigFile::of("config.json", came.dump());
  nlohmann::ordered_json values = came;
  hugging_face::take_changes(values, row.json(row.read(file, row.theirs)), row.json(config));
  return values;
}

std::vector<std::string> export_masked(const fs::path& folder, const MaskedEncoder& model,
                                       const hugging_face::FolderTexts& texts) {
  const Architecture& row = model.row();
  const hugging_face::Came came = hugging_face::came_from(texts, {row.type});
  const hugging_face::NameMap map = name_map(row, true, 0);
  const hugging_face::ExportForm form = hugging_face::export_form(came.texts, model.parameters(), map);
  hugging_face::export_weights(folder.string(), model.parameters(), map, {}, form);
  nlohmann::ordered_json values = kept_config(row, model.config(), came.config);
  values["architectures"] = {std::string(row.classes) + "ForMaskedLM"};
  hugging_face::write_config(folder.string(), values, form);
  return hugging_face::notes_of(form);
}

}  // namespace pipeline::encoder
