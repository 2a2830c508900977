// Folders of transformers of an encoder of texts with a head.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "adapters/lora_options.hpp"
#include "hugging_face/export_form.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/models/encoder/encoder.hpp"

namespace pipeline::encoder {

// What an encoder's folder says: its kind, and its configuration, with a head for labels where it has one.
struct EncoderFolder {
  std::string kind;
  Config config;
};
EncoderFolder read_encoder_folder(const std::filesystem::path& folder);
// Whether config.json is of one of these encoders.
bool is_encoder_folder(const std::filesystem::path& folder);

// The parameters of a head, which are called as in folders.
struct Head {
  std::string prefix = {};  // of the encoder's parameters; folders of the encoder alone do not have it
  std::vector<std::string> parts = {};  // what their names begin with
  std::string by_token = {};            // a parameter with a row for each token
  std::string tied = {};                // what folders call the words once more
  std::optional<heads::LabelForm> label = {};
};

// Throws an Error that names options in which `config` is of another model. table: of the options.
void require_same_encoder(const std::string& table, const Architecture& row, const Config& config,
                          const EncoderFolder& theirs, const std::string& folder);

// What PEFT's adapters have of it.
adapters::AdaptedModel adapted_encoder(const Architecture& row, const Config& config, const Head& head,
                                       const char* task_type);

// How the folder's tensors and the parameters belong together.
hugging_face::NameMap encoder_map(const Architecture& row, const Head& head, int64_t more_tokens = 0);

// The parts of a head that a folder has.
std::vector<std::string> parts_in(const std::filesystem::path& folder, const Architecture& row,
                                  const Head& head);
// The encoder, and these parts of the head, start as they are in the folder.
void import_encoder(const std::filesystem::path& folder, const Architecture& row, const Head& head,
                    ParameterRegistry& parameters, int64_t more_tokens);
std::string kept_weights(const std::filesystem::path& folder, const Architecture& row, const Head& head,
                         const ParameterRegistry& parameters);
// Writes the weights of `encoder` and config.json, with `values` of the head; or an adapter of PEFT, as the
// options of LoRA say. `came`: see language::export_model(), also for what is given back.
std::vector<std::string> export_encoder(const std::filesystem::path& folder, const Architecture& row,
                                        const Config& config, const Head& head, const Encoder& encoder,
                                        const ParameterRegistry& parameters, const nlohmann::json& values,
                                        const adapters::LoraOptions& lora,
                                        const adapters::AdaptedModel& adapted,
                                        const hugging_face::FolderTexts& came);

// The config.json of this encoder where it came with this one, or null.
nlohmann::ordered_json kept_config(const Architecture& row, const Config& config,
                                   const nlohmann::ordered_json& came);

}  // namespace pipeline::encoder
