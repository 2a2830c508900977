// What our vision-language model computes for a folder of LLaVA, for tests/parity/vlm_parity.py to compare
// with transformers.
//
//   vlm_probe FOLDER OUT_FOLDER < request.json > answer.json
//
// FOLDER has input/model.safetensors with `pixels` (B, 3, S, S) beside the model's files. The request has
// sequences {tokens, targets}: a token of -1 is a patch of the next picture, a target of -1 none. OUT_FOLDER
// receives `model`, the folder written again, `gradients`, the same with gradients in place of weights, and
// logits.safetensors with those of all rows. With the folder of a PEFT adapter in the request, the vision
// encoder is frozen, `model` has the additions merged, and there is an `adapter` instead of the gradients.
#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"
#include "plugins/tasks/vlm/model/folders.hpp"
#include "tests/support/declared.hpp"

using namespace pipeline::vlm;

namespace {

namespace fs = std::filesystem;

at::Tensor read_pixels(const fs::path& folder) {
  const auto files = pipeline::safetensors::Folder::open(folder.string());
  const auto& view = files.at("pixels");
  return at::from_blob(const_cast<std::byte*>(view.data.data()), view.shape, at::kFloat).clone();
}

VlmBatch read_batch(const nlohmann::json& request, const at::Tensor& pixels) {
  std::vector<std::vector<int64_t>> tokens, targets;
  std::vector<int64_t> rows;
  int64_t row = 0;
  for (const auto& sequence : request["sequences"]) {
    tokens.push_back(sequence["tokens"]);
    targets.push_back(sequence["targets"]);
    for (int64_t& token : tokens.back()) {
      if (token < 0) rows.push_back(row), token = 0;
      ++row;
    }
  }
  VlmBatch batch;
  batch.packed = pipeline::transformer::pack(tokens, targets);
  if (!rows.empty()) batch.pixels = pixels, batch.picture_rows = at::tensor(rows, at::kLong);
  return batch;
}

void save(const fs::path& path, const std::string& name, const at::Tensor& tensor) {
  pipeline::safetensors::Writer writer(path.string());
  writer.declare(name, pipeline::safetensors::Dtype::kF32, tensor.sizes().vec());
  writer.write(name,
               std::as_bytes(std::span(tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel()))));
  writer.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: vlm_probe FOLDER OUT_FOLDER < request.json\n";
    return 2;
  }
  const auto request = nlohmann::json::parse(std::cin);
  const fs::path folder = argv[1], out = argv[2];
  VlmConfig config = read_llava_config(folder.string());
  --config.language.vocab_size;  // the last token is a patch's
  const std::string adapter = request.value("adapter", "");
  const auto adapted = adapted_llava(config.language, config.vision);
  if (!adapter.empty()) config.lora = pipeline::adapters::read_adapter(adapter, adapted);
  Vlm model(config, [&](pipeline::Parameter& parameter) {
    if (parameter.name.starts_with("language."))
      parameter.trainable = pipeline::adapters::is_trained(parameter, config.lora);
    if (parameter.name.starts_with("vision.")) parameter.trainable = adapter.empty();
  });
  import_llava(folder.string(), model);
  if (!adapter.empty()) pipeline::adapters::start_from_adapter(adapter, model.parameters(), adapted);
  pipeline::tests::initialize(model);
  fs::create_directory(out / "model");
  export_llava((out / "model").string(), model);

  const VlmBatch batch = read_batch(request, read_pixels(folder / "input"));
  save(out / "logits.safetensors", "logits",
       model.logits(batch, at::arange(batch.packed.sequences.rows(), at::kLong), {}));
  if (!adapter.empty()) {
    fs::create_directory(out / "adapter");
    pipeline::adapters::export_adapter((out / "adapter").string(), model.parameters(), config.lora, adapted,
                                       folder.string());
    return 0;
  }
  const auto loss = model.loss(batch, {});
  loss.scaled.backward();
  for (const at::Tensor& parameter : pipeline::tests::tensors(model)) {
    const at::Tensor gradient = parameter.grad();
    at::Tensor(parameter).set_data(gradient.defined() ? gradient : at::zeros_like(parameter));
  }
  fs::create_directory(out / "gradients");
  export_llava((out / "gradients").string(), model);
  std::cout << nlohmann::json{{"loss", loss.sum.item<double>()}, {"flops", model.flops(batch)}} << "\n";
  return 0;
}
