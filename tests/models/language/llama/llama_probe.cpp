// What our Llama computes for a folder of LlamaForCausalLM, for tests/parity/llama_parity.py to compare with
// transformers.
//
//   llama_probe FOLDER OUT_FOLDER < request.json
//
// The request has sequences of tokens, and perhaps the targets of low-rank additions, which get random values
// then. OUT_FOLDER receives logits.safetensors, with those of all rows, and `model`, the folder written
// again.
#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/safetensors/writer.hpp"
#include "language/llama.hpp"
#include "tests/support/declared.hpp"

using namespace pipeline;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: llama_probe FOLDER OUT_FOLDER < request.json\n";
    return 2;
  }
  try {
    const auto request = nlohmann::json::parse(std::cin);
    const std::string folder = argv[1], out = argv[2];
    const auto config = language::read_llama_config(hugging_face::ConfigFile(folder + "/config.json"));
    const std::vector<std::string> targets = request["lora"];
    language::Llama model(config, {}, {.rank = targets.empty() ? 0 : 3, .alpha = 6, .targets = targets});
    language::import_llama(folder, model);
    tests::initialize(model);
    at::manual_seed(1);
    for (const auto& [name, value] : tests::named(model))
      if (name.ends_with(".up")) at::Tensor(value).detach().normal_(0, 0.1);
    std::filesystem::create_directory(out + "/model");
    language::export_llama(out + "/model", model);

    const std::vector<std::vector<int64_t>> tokens = request["sequences"];
    std::vector<std::vector<int64_t>> targets_of;
    for (const auto& sequence : tokens) targets_of.emplace_back(sequence.size(), -1);
    const auto batch = transformer::pack(tokens, targets_of);
    const at::Tensor logits = model.logits(batch, at::arange(batch.sequences.rows(), at::kLong)).contiguous();
    safetensors::Writer writer(out + "/logits.safetensors");
    writer.declare("logits", safetensors::Dtype::kF32, logits.sizes().vec());
    writer.write("logits", std::as_bytes(std::span(logits.const_data_ptr<float>(),
                                                   static_cast<size_t>(logits.numel()))));
    writer.finish();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "llama_probe: " << error.what() << "\n";
    return 1;
  }
}
