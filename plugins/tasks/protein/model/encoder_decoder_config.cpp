#include "plugins/tasks/protein/model/encoder_decoder_config.hpp"

#include <nlohmann/json.hpp>

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {
namespace {

constexpr const char* kModelType = "pipeline-protein-encoder-decoder";

// What has to be the same for the weights to mean the same.
std::vector<std::pair<const char*, int64_t>> shape_of(const EncoderDecoderConfig& config) {
  return {{"hidden_dim", config.hidden_dim},
          {"num_encoder_layers", config.num_encoder_layers},
          {"num_decoder_layers", config.num_decoder_layers},
          {"num_heads", config.num_heads},
          {"feed_forward_dim", config.inner()},
          {"pair_dim", config.pair_dim}};
}

void check_config(const std::string& path, const EncoderDecoderConfig& config) {
  const hugging_face::ConfigFile file(path + "/config.json");
  file.require("model_type", kModelType);
  file.require("amino_acids", std::string(kAminoAcids));  // what the rows of embeddings and head stand for
  hugging_face::Differences differences;
  const auto compare = [&](const char* key, const nlohmann::json& ours) {
    const nlohmann::json* const theirs = file.find(key);
    differences.compare(std::string("task.") + key, ours, theirs == nullptr ? nlohmann::json() : *theirs);
  };
  for (const auto& [key, ours] : shape_of(config)) compare(key, ours);
  compare("layer_norm_epsilon", config.layer_norm_epsilon);
  differences.raise(path);
}

}  // namespace

void import_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config,
                            ParameterRegistry& parameters) {
  check_config(path, config);
  hugging_face::import_weights(path, parameters);
}

void export_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config,
                            const ParameterRegistry& parameters) {
  hugging_face::export_weights(path, parameters);
  nlohmann::ordered_json json{{"model_type", kModelType}};
  for (const auto& [key, value] : shape_of(config)) json[key] = value;
  json["layer_norm_epsilon"] = config.layer_norm_epsilon;
  json["amino_acids"] = kAminoAcids;
  hugging_face::write_text(path + "/config.json", json.dump(2) + "\n");
}

}  // namespace pipeline::protein
