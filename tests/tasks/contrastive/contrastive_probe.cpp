// What our two towers compute for a folder of CLIP or SigLIP, for tests/parity/contrastive_parity.py to
// compare with transformers.
//
//   contrastive_probe FOLDER OUT_FOLDER < request.json > answer.json
//   contrastive_probe --texts FOLDER < texts.json > tokens.json
//
// FOLDER has input/model.safetensors with `pixels` (B, 3, S, S) beside the model's files. The request has
// `texts`, the tokens of each, and what they begin and end with. OUT_FOLDER receives `model`, the folder
// written again, `gradients`, the same with gradients in place of weights, and logits.safetensors with those
// of each picture. The second form gives the tokens of each text, by the folder's tokenizer.
#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "plugins/models/two_towers/folder.hpp"
#include "plugins/models/two_towers/two_towers.hpp"
#include "plugins/tasks/contrastive/text_rules.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/weight_files.hpp"

using namespace pipeline::two_towers;
using namespace pipeline::tasks::contrastive;

namespace {

namespace fs = std::filesystem;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr
        << "usage: contrastive_probe FOLDER OUT_FOLDER < request.json, or --texts FOLDER < texts.json\n";
    return 2;
  }
  const auto request = nlohmann::json::parse(std::cin);
  if (std::string_view(argv[1]) == "--texts") {
    const auto tokenizer = pipeline::tokenizer::load_tokenizer(argv[2]);
    const TextRules rules = text_rules(*tokenizer);
    nlohmann::json all = {{"padding", rules.padding}, {"end", tokenizer->eot()}};
    for (const std::string text : request) all["tokens"].push_back(encode(*tokenizer, rules, text));
    std::cout << all << "\n";
    return 0;
  }
  const fs::path folder = argv[1], out = argv[2];
  TwoTowers model(read_config(folder.string()));
  import_model(folder.string(), model);
  pipeline::tests::initialize(model);
  const TextEnds ends{.begin = request["begin"], .end = request["end"]};
  fs::create_directory(out / "model");
  export_model((out / "model").string(), model, ends);

  PairBatch batch;
  batch.pixels = pipeline::tests::read_tensor(folder / "input", "pixels");
  std::vector<std::vector<int64_t>> texts = request["texts"], targets;
  for (const auto& text : texts) targets.emplace_back(text.size(), -1);
  batch.texts = pipeline::transformer::pack(texts, targets);
  const at::Tensor scaled = model.scaled(batch, {});
  const at::Tensor rows = at::cat({scaled, at::ones({scaled.size(0), 1})}, 1);
  const int64_t width = model.config().projection_dim;
  pipeline::tests::write_tensor(
      out / "logits.safetensors", "logits",
      (at::mm(rows.narrow(1, 0, width), rows.narrow(1, width + 1, width).t()) + rows.narrow(1, width, 1))
          .detach());

  PairLoss loss(model.config().is_clip() ? PairLoss::Kind::kSoftmax : PairLoss::Kind::kSigmoid);
  loss.begin(rows.detach());
  const pipeline::RowLoss part = loss.part(rows.detach(), 0, rows.size(0));
  const auto count = static_cast<double>(rows.size(0));
  ((rows * part.gradient).sum() / count).backward();
  for (const at::Tensor& parameter : pipeline::tests::tensors(model)) {
    const at::Tensor gradient = parameter.grad();
    at::Tensor(parameter).set_data(gradient.defined() ? gradient : at::zeros_like(parameter));
  }
  fs::create_directory(out / "gradients");
  export_model((out / "gradients").string(), model, ends);
  std::cout << nlohmann::json{{"loss", part.sum.item<double>() / count}, {"flops", model.flops(batch)}}
            << "\n";
  return 0;
}
