// What our vision-language model computes for a folder of LLaVA, for tests/parity/vlm_parity.py to compare
// with transformers.
//
//   vlm_probe FOLDER OUT_FOLDER < request.json > answer.json
//
// The request has `pictures`, paths of files, and `sequences` {tokens, targets, pictures}: a token of -1 is a
// row of features of the next picture, of which those with these numbers follow each other; a target of -1 is
// none. In place of files FOLDER may have input/model.safetensors beside the model's files, with `pixels` (B,
// 3, S, S), one square a picture. OUT_FOLDER receives `model`, the folder written again, `gradients`, the
// same with gradients in place of weights, logits.safetensors with those of all rows, and pixels.safetensors
// with what was made of the files. These are prepared as the encoder has it, of NaFlex as up to `max_patches`
// patches, of DINOv2 as squares of `crop_size` cut of pictures whose shortest side is `shortest_edge`. With a
// `tokenizer`'s folder pictures take what Idefics3 writes around them, and are cut by `longest_edge` and
// `split`; `smol` writes SmolVLM's folder. `prompts` {tokens, pictures} are gone on with, greedily, by
// `new_tokens`. With the folder of a PEFT adapter in the request, the vision encoder is frozen, `model` has
// LoRA merged, and there is an `adapter` instead of the gradients.
#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "generation/generate.hpp"
#include "plugins/models/llava/batch.hpp"
#include "plugins/models/llava/folders.hpp"
#include "plugins/models/llava/vlm.hpp"
#include "plugins/models/pictures/picture_options.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/weight_files.hpp"

using namespace pipeline::llava;

namespace {

namespace fs = std::filesystem;

std::vector<float> values(const at::Tensor& tensor) {
  const float* const first = tensor.const_data_ptr<float>();
  return {first, first + tensor.numel()};
}

std::vector<SamplePicture> read_pictures(const nlohmann::json& request, const fs::path& folder,
                                         const VlmConfig& config) {
  const int64_t side = config.vision.square();
  pipeline::pictures::PictureOptions options;
  options.vision = config.vision;
  for (const pipeline::images::Grid& grid : config.grids) options.grids.push_back(name_of(grid));
  options.longest_edge = request.value("longest_edge", 0);
  options.split = request.value("split", true);
  options.shortest_edge = request.value("shortest_edge", 0);
  options.max_patches = request.value("max_patches", 0);
  if (!config.grids.empty() || config.vision.has_last_norm()) options.resize = "squash";
  if (options.longest_edge > 0) options.resample = "lanczos";
  if (config.vision.is_flexible()) options.resample = "bilinear";
  const pipeline::images::TileOptions tiles = options.tiles();
  PictureWords words;
  if (request.contains("tokenizer")) {
    const auto format = std::make_shared<const pipeline::chat::ChatFormat>(
        "{{ eos_token }}", "probe",
        pipeline::tokenizer::load_tokenizer(request["tokenizer"].get<std::string>()), 0);
    words = [format](const std::string& text) { return format->picture_tokens(text); };
  }
  const PictureLayout layout(tiles, config.vision.side() / config.scale_factor, words,
                             config.vision.num_register_tokens);
  std::vector<SamplePicture> pictures;
  if (!request.contains("pictures")) {
    for (const at::Tensor& square : pipeline::tests::read_tensor(folder / "input", "pixels").unbind())
      pictures.push_back(
          {.shape = layout.of(side, side), .key = {}, .features = {}, .pixels = values(square)});
    return pictures;
  }
  for (const std::string path : request["pictures"]) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const auto image = pipeline::images::decode_image(std::as_bytes(std::span(bytes)));
    pictures.push_back({.shape = layout.of(image.width, image.height),
                        .key = {},
                        .features = {},
                        .pixels = pipeline::images::numbers_of(image, tiles)});
  }
  return pictures;
}

struct Batch {
  VlmBatch batch;
  PicturesOfBatch pictures;
};

// A batch of samples {tokens, targets, pictures}; without `pictures` a sample takes the next that have rows.
Batch read_batch(const nlohmann::json& samples, const std::vector<SamplePicture>& pictures,
                 const VlmConfig& config) {
  BatchBuilder builder(config.vision.square(), config.rows_of_square(), false, false);
  size_t next = 0;
  for (const auto& sample : samples) {
    pipeline::chat::Sequence sequence{.tokens = sample["tokens"], .targets = {}};
    sequence.targets = sample.contains("targets") ? sample["targets"].get<std::vector<int64_t>>()
                                                  : std::vector<int64_t>(sequence.tokens.size(), -1);
    std::vector<SamplePicture> mine;
    int64_t rows = std::count(sequence.tokens.begin(), sequence.tokens.end(), -1);
    if (sample.contains("pictures")) {
      for (const size_t number : sample["pictures"]) mine.push_back(pictures.at(number));
    } else {
      for (; rows > 0; rows -= mine.back().rows()) mine.push_back(pictures.at(next++));
    }
    builder.add(std::move(sequence), std::move(mine), false);
  }
  Batch result;
  builder.finish(result.batch, result.pictures);
  return result;
}

std::vector<std::vector<int64_t>> written(const nlohmann::json& request, const Vlm& model,
                                          const std::vector<SamplePicture>& pictures) {
  const auto prompts = request.value("prompts", nlohmann::json::array());
  if (prompts.empty()) return {};
  const Batch seen = read_batch(prompts, pictures, model.config());
  std::vector<pipeline::generation::Prompt> starts;
  for (const auto& prompt : prompts) starts.push_back({.id = starts.size(), .tokens = prompt["tokens"]});
  const SeeingDecoder decoder(model.language(), model.features(seen.batch, {}));
  return pipeline::generation::generate(decoder, starts,
                                        {.max_new_tokens = request["new_tokens"], .eos_token_ids = {}});
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
  config.vision.crop_size = request.value("crop_size", 0);
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
  const bool is_smol = request.value("smol", false);
  export_llava((out / "model").string(), model, {}, is_smol);

  const std::vector<SamplePicture> pictures = read_pictures(request, folder, config);
  const VlmBatch batch = read_batch(request["sequences"], pictures, config).batch;
  if (batch.pixels.defined())
    pipeline::tests::write_tensor(out / "pixels.safetensors", "pixels", batch.pixels);
  pipeline::tests::write_tensor(
      out / "logits.safetensors", "logits",
      model.logits(batch, at::arange(batch.packed.sequences.rows(), at::kLong), {}));
  if (!adapter.empty()) {
    fs::create_directory(out / "adapter");
    pipeline::adapters::export_adapter((out / "adapter").string(), model.parameters(), config.lora, adapted,
                                       folder.string());
    return 0;
  }
  std::vector<int64_t> rows;
  std::vector<std::vector<int64_t>> taken;
  for (const SamplePicture& picture : pictures) {
    rows.push_back(picture.rows());
    taken.push_back(picture.shape.tokens);
  }
  const auto generated = written(request, model, pictures);
  const auto loss = model.loss(batch, {});
  loss.scaled.backward();
  for (const at::Tensor& parameter : pipeline::tests::tensors(model)) {
    const at::Tensor gradient = parameter.grad();
    at::Tensor(parameter).set_data(gradient.defined() ? gradient : at::zeros_like(parameter));
  }
  fs::create_directory(out / "gradients");
  export_llava((out / "gradients").string(), model, {}, is_smol);
  std::cout << nlohmann::json{{"loss", loss.sum.item<double>()},
                              {"flops", model.flops(batch)},
                              {"rows", rows},
                              {"tokens", taken},
                              {"generated", generated}}
            << "\n";
  return 0;
}
