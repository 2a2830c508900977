// What our ESM-2, or ESM C, computes for a Hugging Face folder, for tests/parity/esm2_parity.py to compare
// with transformers.
//
//   esm2_probe FOLDER OUT_FOLDER < request.json > answer.json
//
// The request has samples; a sample is a list of chains {tokens, positions, targets}, a target of -1: none.
// OUT_FOLDER receives `model`, the folder as read and written again by another process' model; `gradients`,
// the same kind of folder with gradients in place of weights; and the logits of all residues. With the folder
// of a PEFT adapter in the request, `model` has it merged, `gradients` is such a folder, and so is `adapter`.
#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/safetensors/writer.hpp"
#include "hugging_face/config_file.hpp"
#include "plugins/models/encoder/protein_encoder.hpp"
#include "tests/support/declared.hpp"

using namespace pipeline::encoder;
using namespace pipeline::protein;

namespace {

PackedProteins read_batch(const nlohmann::json& samples, bool all_are_targets) {
  PackedProteins batch;
  std::vector<int64_t> tokens, positions, chains, targets;
  for (const auto& sample : samples) {
    const size_t before = tokens.size();
    for (size_t chain = 0; chain < sample.size(); ++chain) {
      const auto& given = sample[chain];
      for (size_t i = 0; i < given["tokens"].size(); ++i) {
        const int64_t target = all_are_targets ? 0 : given["targets"][i].get<int64_t>();
        if (target >= 0) {
          batch.target_rows.push_back(static_cast<int64_t>(tokens.size()));
          targets.push_back(target);
        }
        tokens.push_back(given["tokens"][i]);
        positions.push_back(given["positions"][i]);
        chains.push_back(static_cast<int64_t>(chain));
      }
    }
    batch.sequences.append(static_cast<int64_t>(tokens.size() - before));
  }
  batch.tokens = at::tensor(tokens, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  batch.chains = at::tensor(chains, at::kLong);
  batch.targets = at::tensor(targets, at::kLong);
  batch.index();
  return batch;
}

void copy_into(ProteinModel& model, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < values.size(); ++i) at::Tensor(model.parameters()[i].tensor).copy_(values[i]);
}

void save(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors) {
  namespace safetensors = pipeline::safetensors;
  safetensors::Writer writer(path.string());
  for (const auto& [name, tensor] : tensors)
    writer.declare(name, safetensors::Dtype::kF32, tensor.sizes().vec());
  for (const auto& [name, tensor] : tensors) {
    writer.write(
        name, std::as_bytes(std::span(tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel()))));
  }
  writer.finish();
}

nlohmann::json probe(const nlohmann::json& request, const std::filesystem::path& folder,
                     const std::filesystem::path& out, const Architecture& row) {
  const Config config = pipeline::encoder::read_config(row, folder / "config.json");
  pipeline::adapters::LoraOptions lora;
  lora.init_from = request.value("adapter", "");
  if (!lora.init_from.empty()) {
    static_cast<pipeline::adapters::LoraConfig&>(lora) =
        pipeline::adapters::read_adapter(lora.init_from.string(), adapted_model(row, config));
    lora.base_model = folder;
  }
  ProteinEncoder model(row, config, lora);
  model.import_folder(folder);
  std::vector<at::Tensor> values, gradients;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    values.push_back(at::empty(model.parameters()[i].shape));
    model.parameters().initialize(i, 0, values.back());
  }
  copy_into(model, values);

  // Parameters and extra state are all that an export from a checkpoint has of the folder.
  lora.init_from = "";
  pipeline::adapters::LoraOptions whole = lora;
  whole.merge = true;
  ProteinEncoder again(row, config, whole);
  again.set_extra_state(model.extra_state());
  copy_into(again, values);
  const auto write = [&](const ProteinModel& what, const char* name) {
    std::filesystem::create_directory(out / name);
    what.export_folder(out / name);
  };
  write(again, "model");
  if (lora.rank > 0) write(model, "adapter");

  const PackedProteins batch = read_batch(request["samples"], false),
                       all = read_batch(request["samples"], true);
  save(out / "logits.safetensors", {{"logits", again.logits(all, {})},
                                    {"target_logits", again.logits(batch, {})},
                                    {"log_probabilities", again.outputs(batch, {}).log_probabilities}});
  const auto loss = again.loss(batch, {});
  loss.scaled.backward();
  for (const auto& parameter : again.parameters()) {
    if (parameter.trainable != parameter.tensor.grad().defined())
      throw std::runtime_error(parameter.name + ": is frozen and has a gradient, or the other way");
    gradients.push_back(parameter.trainable ? parameter.tensor.grad() : at::zeros(parameter.shape));
  }
  ProteinEncoder slopes(row, config, lora);
  copy_into(slopes, gradients);
  write(slopes, "gradients");
  return {{"loss", loss.sum.item<double>()}, {"flops", again.flops(batch)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: esm2_probe FOLDER OUT_FOLDER < request.json\n";
    return 2;
  }
  const auto request = nlohmann::json::parse(std::cin);
  const std::filesystem::path folder = argv[1], path = folder / "config.json";
  const bool is_esmc = pipeline::hugging_face::ConfigFile(path.string()).type({"esm", "esmc"}) == "esmc";
  std::cout << probe(request, folder, argv[2], is_esmc ? esmc() : esm2()) << "\n";
  return 0;
}
