// What our GPT-2 computes for a Hugging Face folder, for tests/parity/gpt2_parity.py to compare with
// transformers.
//
//   gpt2_probe FOLDER OUT_FOLDER < request.json > answer.json
//
// The request has tokens, targets, prompts, eos_token_id, steps of AdamW. OUT_FOLDER receives the model as
// read, saved again.
#include <ATen/ATen.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "generation/generate.hpp"
#include "language/folder.hpp"
#include "tiny_model.hpp"

using namespace pipeline::language;
using pipeline::generation::generate;
using pipeline::language::testing::checksums;
using pipeline::language::testing::tensors;
using pipeline::language::testing::zero_gradients;
using pipeline::transformer::pack;
using Sequences = std::vector<std::vector<int64_t>>;

namespace {

nlohmann::json adamw_losses(LanguageModel& model, const PackedBatch& batch, double count,
                            const nlohmann::json& options) {
  const double rate = options["lr"], beta1 = options["beta1"], beta2 = options["beta2"],
               decay = options["weight_decay"];
  std::vector<at::Tensor> parameters = tensors(model), first, second, steps;
  for (const at::Tensor& p : parameters) {
    first.push_back(at::zeros_like(p));
    second.push_back(at::zeros_like(p));
    steps.push_back(at::zeros({}));
  }
  nlohmann::json losses;
  for (int step = 0; step < options["steps"].get<int>(); ++step) {
    zero_gradients(model);
    const auto loss = model.loss(batch, {.scale = 1 / count});
    losses.push_back(loss.sum.item<double>() / count);
    loss.scaled.backward();
    for (size_t i = 0; i < parameters.size(); ++i) {
      steps[i].add_(1);
      const at::Tensor value = parameters[i].detach();
      at::_fused_adamw_({value}, {parameters[i].grad()}, {first[i]}, {second[i]}, {}, {steps[i]}, rate, beta1,
                        beta2, value.dim() >= 2 ? decay : 0, options["eps"].get<double>(), false, false);
    }
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: gpt2_probe FOLDER OUT_FOLDER < request.json\n";
    return 2;
  }
  const auto request = nlohmann::json::parse(std::cin);
  LanguageModel model(read_config(pipeline::hugging_face::ConfigFile(std::string(argv[1]) + "/config.json")));
  import_model(argv[1], model);
  pipeline::tests::initialize(model);
  export_model(argv[2], model);

  nlohmann::json answer;
  const PackedBatch batch = pack(request["tokens"].get<Sequences>(), request["targets"].get<Sequences>());
  const at::Tensor logits = model.logits(batch, at::arange(batch.sequences.rows(), at::kLong));
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
    answer["logits"].push_back(
        checksums(logits.narrow(0, batch.sequences.start(s), batch.sequences.length(s))));
  }
  const auto loss = model.loss(batch, {});
  answer["loss"] = loss.sum.item<double>();
  loss.scaled.backward();
  for (const auto& parameter : model.parameters())
    answer["gradients"][parameter.name] = checksums(parameter.tensor.grad());

  std::vector<pipeline::generation::Prompt> prompts;
  for (const auto& tokens : request["prompts"].get<Sequences>()) prompts.push_back({prompts.size(), tokens});
  pipeline::generation::GenerationOptions options;
  options.max_new_tokens = request["max_new_tokens"];
  options.eos_token_ids = request["eos_token_id"].get<std::vector<int64_t>>();
  answer["greedy"] = generate(model, prompts, options);
  options.beams = 4;
  answer["beam"] = generate(model, prompts, options);

  answer["adamw_losses"] =
      adamw_losses(model, batch, static_cast<double>(batch.target_rows.size()), request["adamw"]);
  std::cout << answer << "\n";
  return 0;
}
