// What our language models compute for a Hugging Face folder, for tests/parity/language_parity.py to compare
// with transformers.
//
//   language_probe FOLDER OUT_FOLDER < request.json > answer.json
//
// The request has sequences of tokens, their targets (-1: none), perhaps the targets of low-rank additions,
// which get random values then, prompts, new_tokens and AdamW's options. OUT_FOLDER receives
// logits.safetensors, with those of all rows, and as folders the model written again (`model`), its gradients
// as such a folder has them (`gradients`), and what it is after some steps of AdamW (`trained`).
#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/safetensors/writer.hpp"
#include "generation/generate.hpp"
#include "language/folder.hpp"
#include "tests/support/declared.hpp"

using namespace pipeline;

namespace {

using language::LanguageModel;
using language::PackedBatch;

void write(const std::string& folder, const LanguageModel& model) {
  std::filesystem::create_directory(folder);
  language::export_model(folder, model);
}

void write_tensors(const std::string& file, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  safetensors::Writer writer(file);
  for (const auto& [name, tensor] : tensors)
    writer.declare(name, safetensors::Dtype::kF32, tensor.sizes().vec());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.contiguous();
    writer.write(name,
                 std::as_bytes(std::span(plain.const_data_ptr<float>(), static_cast<size_t>(plain.numel()))));
  }
  writer.finish();
}

void write_gradients(const std::string& folder, const LanguageModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (const auto& parameter : model.parameters())
    for (const hugging_face::Piece& piece : language::pieces(parameter, model.config(), ""))
      gradients.emplace_back(piece.name, piece.of(parameter.tensor.grad()));
  std::filesystem::create_directory(folder);
  write_tensors(folder + "/model.safetensors", gradients);
}

// As strategies have it, matrices and embeddings decay.
void train(const LanguageModel& model, const PackedBatch& batch, double scale,
           const nlohmann::json& options) {
  struct State {
    at::Tensor first, second, step;
  };
  std::vector<State> states;
  for (const at::Tensor& p : tests::tensors(model))
    states.push_back({at::zeros_like(p), at::zeros_like(p), at::zeros({})});
  for (int step = 0; step < options["steps"].get<int>(); ++step) {
    tests::zero_gradients(model);
    model.loss(batch, {.scale = scale}).scaled.backward();
    for (size_t i = 0; i < states.size(); ++i) {
      const at::Tensor parameter = tests::tensors(model)[i], value = parameter.detach();
      states[i].step.add_(1);
      at::_fused_adamw_({value}, {parameter.grad()}, {states[i].first}, {states[i].second}, {},
                        {states[i].step}, options["lr"].get<double>(), options["beta1"].get<double>(),
                        options["beta2"].get<double>(),
                        value.dim() >= 2 ? options["weight_decay"].get<double>() : 0,
                        options["eps"].get<double>(), false, false);
    }
  }
}

nlohmann::json greedy(const LanguageModel& model, const nlohmann::json& request) {
  std::vector<generation::Prompt> prompts;
  for (const auto& tokens : request["prompts"])
    prompts.push_back({prompts.size(), tokens.get<std::vector<int64_t>>()});
  generation::GenerationOptions options;
  options.max_new_tokens = request["new_tokens"];
  options.eos_token_ids = {};
  return generation::generate(model, prompts, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: language_probe FOLDER OUT_FOLDER < request.json > answer.json\n";
    return 2;
  }
  try {
    const auto request = nlohmann::json::parse(std::cin);
    const std::string folder = argv[1], out = argv[2];
    const auto config = language::read_config(hugging_face::ConfigFile(folder + "/config.json"));
    const std::vector<std::string> additions = request["lora"];
    LanguageModel model(config, {}, {.rank = additions.empty() ? 0 : 3, .alpha = 6, .targets = additions});
    language::import_model(folder, model);
    tests::initialize(model);
    at::manual_seed(1);
    for (const auto& [name, value] : tests::named(model))
      if (name.ends_with(".up")) at::Tensor(value).detach().normal_(0, 0.1);
    write(out + "/model", model);

    const std::vector<std::vector<int64_t>> tokens = request["sequences"], targets = request["targets"];
    const auto batch = transformer::pack(tokens, targets);
    const at::Tensor all = at::arange(batch.sequences.rows(), at::kLong);
    write_tensors(out + "/logits.safetensors", {{"logits", model.logits(batch, all)}});
    const double scale = 1 / static_cast<double>(batch.target_rows.size());
    nlohmann::json answer{{"greedy", greedy(model, request)}};
    const LossSum loss = model.loss(batch, {.scale = scale});
    answer["loss"] = loss.sum.item<double>() * scale;
    if (additions.empty()) {
      loss.scaled.backward();
      write_gradients(out + "/gradients", model);
      train(model, batch, scale, request["adamw"]);
      write(out + "/trained", model);
    }
    std::cout << answer << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "language_probe: " << error.what() << "\n";
    return 1;
  }
}
