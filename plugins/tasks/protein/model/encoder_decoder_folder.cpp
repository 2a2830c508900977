#include "plugins/tasks/protein/model/encoder_decoder_folder.hpp"

#include <set>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "plugins/tasks/common/hugging_face/config_file.hpp"
#include "plugins/tasks/common/hugging_face/differences.hpp"
#include "plugins/tasks/common/hugging_face/problems.hpp"
#include "plugins/tasks/common/hugging_face/weights.hpp"
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

EncoderDecoderFolder::EncoderDecoderFolder(const std::string& path, const EncoderDecoderConfig& config, const Parameters& parameters)
    : files_((check_config(path, config), safetensors::Folder::open(path))) {
  hugging_face::Problems problems;
  std::set<std::string> known;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterInfo& info = parameters.info(i);
    known.insert(info.name);
    const safetensors::TensorView* const view = files_.find(info.name);
    views_.push_back(view);
    if (view == nullptr) {
      problems.add("missing", info.name);
    } else {
      if (view->shape != info.shape) problems.add_shape(info.name, view->shape, info.shape);
      hugging_face::scalar_type(*view, path);
    }
  }
  for (const std::string& name : files_.names())
    if (!known.contains(name)) problems.add("unexpected", name);
  problems.raise(path);
}

void EncoderDecoderFolder::read(size_t index, at::Tensor& out) const { hugging_face::copy_converted(*views_.at(index), files_.path(), out); }

void write_encoder_decoder(const std::string& path, const EncoderDecoderConfig& config, const Parameters& parameters) {
  safetensors::Writer writer(path + "/model.safetensors", {.sync = true});
  for (size_t i = 0; i < parameters.size(); ++i) writer.declare(parameters.info(i).name, safetensors::Dtype::kF32, parameters.info(i).shape);
  for (size_t i = 0; i < parameters.size(); ++i)
    hugging_face::write_as_fp32(writer, parameters.info(i).name, parameters.named()[i].second.detach());
  writer.finish();
  nlohmann::ordered_json json{{"model_type", kModelType}};
  for (const auto& [key, value] : shape_of(config)) json[key] = value;
  json["layer_norm_epsilon"] = config.layer_norm_epsilon;
  json["amino_acids"] = kAminoAcids;
  hugging_face::write_text(path + "/config.json", json.dump(2) + "\n");
}

}  // namespace pipeline::protein
