// What our language models compute for a Hugging Face folder, for tests/parity/language_parity.py to compare
// with transformers.
//
//   language_probe FOLDER OUT_FOLDER < request.json > answer.json
//
// The request has sequences of tokens, their targets (-1: none), perhaps the folder of a PEFT adapter and in
// how few bits what is frozen is kept ("nf4"), prompts, new_tokens and AdamW's options. OUT_FOLDER receives
// logits.safetensors, with those of all rows, and as folders the model written again (`model`), the adapter
// (`adapter`), the gradients as the one or the other has them (`gradients`), and what the model is after some
// steps of AdamW (`trained`).
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

void write_adapter(const std::string& folder, const LanguageModel& model, const adapters::LoraOptions& lora) {
  std::filesystem::create_directory(folder);
  language::export_model(folder, model, lora);
}

// Writes the folder with gradients in place of the values that are trained.
void write_gradients(const std::string& folder, LanguageModel& model, const adapters::LoraOptions& lora) {
  std::vector<std::pair<at::Tensor, at::Tensor>> before;
  for (const auto& parameter : model.parameters()) {
    if (parameter.trainable != parameter.tensor.grad().defined())
      throw std::runtime_error(parameter.name + ": is frozen and has a gradient, or the other way");
    if (!parameter.trainable) continue;
    const at::Tensor value = parameter.tensor.detach();
    before.emplace_back(value, value.clone());
    value.copy_(parameter.tensor.grad());
  }
  write_adapter(folder, model, lora);
  for (const auto& [value, was] : before) value.copy_(was);
}

void write_gradients(const std::string& folder, const LanguageModel& model) {
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (const auto& parameter : model.parameters())
    for (const hugging_face::Piece& piece : language::pieces(parameter, model.config(), ""))
      gradients.emplace_back(piece.name, piece.of(parameter.tensor.grad()));
  std::filesystem::create_directory(folder);
  write_tensors(folder + "/model.safetensors", gradients);
}

// Takes steps of AdamW; matrices and embeddings decay, as strategies have it.
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
      if (!parameter.requires_grad()) continue;
      states[i].step.add_(1);
      at::_fused_adamw_({value}, {parameter.grad()}, {states[i].first}, {states[i].second}, {},
                        {states[i].step}, options["lr"].get<double>(), options["beta1"].get<double>(),
                        options["beta2"].get<double>(),
                        value.dim() >= 2 ? options["weight_decay"].get<double>() : 0,
                        options["eps"].get<double>(), false, false);
    }
  }
}

// From now on the matrices of layers are frozen, in 8 or 4 bits; those of a folder that has them so as they
// are there.
void keep_frozen(LanguageModel& model, uint32_t form) {
  const ParameterRegistry& all = model.parameters();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].coding) continue;
    const at::Tensor bytes = at::empty({static_cast<int64_t>(all[i].coding->bytes(all[i], form))}, at::kByte);
    all.initialize_coded(i, 0, form, static_cast<std::byte*>(bytes.mutable_data_ptr()));
    all[i].tensor.requires_grad_(false).set_data(all[i].coding->bound(all[i], bytes));
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
    adapters::LoraOptions lora;
    lora.init_from = request["adapter"].get<std::string>();
    if (!lora.init_from.empty()) {
      static_cast<adapters::LoraConfig&>(lora) =
          adapters::read_adapter(lora.init_from.string(), language::adapted_model(config));
      lora.base_model = folder;
    }
    const std::shared_ptr<LanguageModel> made = language::make_adapted(config, lora);
    LanguageModel& model = *made;
    language::import_model(folder, model);
    language::start_from_adapter(model, lora);
    tests::initialize(model);
    if (const std::string frozen = request.value("frozen", ""); !frozen.empty())
      keep_frozen(model, frozen == "nf4" ? PL_FORM_NF4 : PL_FORM_INT8);
    write(out + "/model", model);
    if (request.value("values_only", false)) {
      std::cout << "{}\n";
      return 0;
    }
    if (lora.rank > 0) write_adapter(out + "/adapter", model, lora);

    const std::vector<std::vector<int64_t>> tokens = request["sequences"], targets = request["targets"];
    const auto batch = transformer::pack(tokens, targets);
    const at::Tensor all = at::arange(batch.sequences.rows(), at::kLong);
    write_tensors(out + "/logits.safetensors", {{"logits", model.logits(batch, all)}});
    const double scale = 1 / static_cast<double>(batch.target_rows.size());
    nlohmann::json answer{{"greedy", greedy(model, request)}};
    const LossSum loss = model.loss(batch, {.scale = scale});
    answer["loss"] = loss.sum.item<double>() * scale;
    loss.scaled.backward();
    if (lora.rank > 0)
      write_gradients(out + "/gradients", model, lora);
    else
      write_gradients(out + "/gradients", model);
    train(model, batch, scale, request["adamw"]);
    write(out + "/trained", model);
    std::cout << answer << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "language_probe: " << error.what() << "\n";
    return 1;
  }
}
