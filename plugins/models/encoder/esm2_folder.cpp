#include "plugins/models/encoder/esm2_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/models/encoder/esm2_sequences.hpp"
#include "plugins/models/protein/label_folder.hpp"
#include "tokenizer/text_file.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::encoder::esm2 {
namespace {

constexpr const char *kWhat = "what the weights carry besides parameters", *kFiles = "files";

[[noreturn]] void fail(const std::string& problem) {
  throw std::runtime_error(std::string(kWhat) + ": " + problem);
}

using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

constexpr const char *kWords = "esm.embeddings.word_embeddings.weight", *kHead = "lm_head.decoder.weight",
                     *kClass = "Esm";

// Weights are (out, in) there and (in, out) here. Query, key and value are three there and one here.
std::vector<Piece> pieces_of(const Parameter& parameter) {
  if (parameter.name.starts_with("lora.")) return {};
  const bool turned = parameter.shape.size() == 2 && parameter.name != kWords;
  if (parameter.name.find(".qkv.") == std::string::npos)
    return {{.name = parameter.name, .transposed = turned}};
  const int64_t width = parameter.shape.back() / 3;
  return hugging_face::side_by_side(parameter.name, "qkv",
                                    {{"query", width}, {"key", width}, {"value", width}}, turned);
}

// Of layers in older versions of transformers.
bool is_old_frequencies(const std::string& name) {
  return name.ends_with(".attention.self.rotary_embeddings.inv_freq");
}

// transformers 5 writes the norms of layers under the names that TensorFlow has for them, and folders have
// what rotary positions make no use of.
std::string plain_name(std::string name) {
  if (name == "esm.embeddings.position_ids" || name == "esm.embeddings.position_embeddings.weight" ||
      is_old_frequencies(name))
    return "";
  for (const auto& [from, to] :
       {std::pair(".LayerNorm.gamma", ".LayerNorm.weight"), {".LayerNorm.beta", ".LayerNorm.bias"}}) {
    if (name.ends_with(from)) name.replace(name.size() - std::string(from).size(), std::string::npos, to);
  }
  return name;
}

void compare(const std::string& path, const Esm2Config& ours, const Esm2Config& theirs) {
  hugging_face::Differences differences;
  differences.compare("task.esm2.num_layers", ours.num_layers, theirs.num_layers);
  differences.compare("task.esm2.hidden_dim", ours.hidden_dim, theirs.hidden_dim);
  differences.compare("task.esm2.num_heads", ours.num_heads, theirs.num_heads);
  differences.compare("task.esm2.intermediate_dim", ours.inner(), theirs.inner());
  differences.compare("task.esm2.token_dropout", ours.token_dropout, theirs.token_dropout);
  differences.compare("task.esm2.layer_norm_epsilon", ours.layer_norm_epsilon, theirs.layer_norm_epsilon);
  protein::compare_label(differences, ours.label, theirs.label);
  differences.raise(path);
}

const hugging_face::Fields<Esm2Config>& esm2_fields() {
  using namespace hugging_face;
  static const Fields<Esm2Config> kFields{
      {"num_hidden_layers", &Esm2Config::num_layers},
      {"hidden_size", &Esm2Config::hidden_dim},
      {"num_attention_heads", &Esm2Config::num_heads},
      {"intermediate_size", &Esm2Config::intermediate},
      {"hidden_dropout_prob", &Esm2Config::hidden_dropout},
      {"attention_probs_dropout_prob", &Esm2Config::attention_dropout},
      {"token_dropout", &Esm2Config::token_dropout},
      {"layer_norm_eps", &Esm2Config::layer_norm_epsilon},
      {"initializer_range", &Esm2Config::initializer_range},
      {"position_embedding_type", required("rotary")},
      {"vocab_size", required(kVocabulary.size())},
      {"mask_token_id", required(kMask)},
      {"pad_token_id", only({kPad})},
      {"vocab_list", only({kVocabulary})},
      {"emb_layer_norm_before", only({false})},
      {"hidden_act", only({"gelu"})},
      {"is_folding_model", only({false})},
      {"esmfold_config", only({nullptr})},
      {"tie_word_embeddings", only({true})},
      {"rope_theta", only({10000.0})},
      {"max_position_embeddings", kWithoutEffect},  // rotary positions know no limit
      {"classifier_dropout", kWithoutEffect},
  };
  return kFields;
}

}  // namespace

// JSON: a list of numbers by name. fp32 goes there and back without loss.
std::string Extras::pack(const Esm2Config& config) const {
  json packed = json::object();
  each(*this, config, [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>&) {
    if (!tensor.defined()) return;
    const float* const values = tensor.const_data_ptr<float>();
    packed[name] = std::vector<float>(values, values + tensor.numel());
  });
  if (!files.empty()) packed[kFiles] = files;
  return packed.empty() ? "" : packed.dump();
}

Extras Extras::unpack(std::string_view text, const Esm2Config& config) {
  Extras extras;
  if (text.empty()) return extras;
  json packed = strict_json::parse(text, kWhat);
  if (!packed.is_object()) fail("is " + strict_json::excerpt(packed) + ", must be a JSON object");
  each(extras, config, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    const auto found = packed.find(name);
    if (found == packed.end()) return;
    if (!found->is_array() ||
        !std::all_of(found->begin(), found->end(), [](const json& v) { return v.is_number(); }))
      fail(std::string(name) + " is " + strict_json::excerpt(*found) + ", must be a list of numbers");
    if (static_cast<int64_t>(found->size()) != c10::multiply_integers(shape))
      fail(std::string(name) + " has " + std::to_string(found->size()) + " elements, must have " +
           std::to_string(c10::multiply_integers(shape)) + ": this is a model of another size");
    tensor = at::tensor(found->get<std::vector<float>>()).view(shape);
    packed.erase(found);
  });
  if (const auto found = packed.find(kFiles); found != packed.end()) {
    for (const auto& [name, content] : found->items()) {
      if (!tokenizer::is_folder_file(name) || !content.is_string())
        fail(std::string(kFiles) + " has " + strict_json::excerpt(name) +
             ", which is no file of a tokenizer");
      extras.files[name] = content;
    }
    packed.erase(found);
  }
  if (!packed.empty()) fail(packed.begin().key() + " is nothing that this version knows");
  return extras;
}

Esm2Config read_config(const std::string& path) {
  const ConfigFile file(path);
  file.type({"esm"});
  Esm2Config config;  // with transformers' defaults
  config.hidden_dim = 768;
  config.num_layers = config.num_heads = 12;
  config.intermediate = 3072;
  config.hidden_dropout = config.attention_dropout = 0.1;
  config.layer_norm_epsilon = 1e-12;
  config.token_dropout = false;
  config.label = protein::read_label(file, kClass);
  return file.checked(hugging_face::read_fields(file, esm2_fields(), "EsmConfig", config));
}

std::string format_config(const Esm2Config& config) {
  json values = {
      {"model_type", "esm"},
      {"architectures", {"EsmForMaskedLM"}},
      {"position_embedding_type", "rotary"},
      {"emb_layer_norm_before", false},
      {"hidden_act", "gelu"},
      {"is_folding_model", false},
      {"tie_word_embeddings", true},
      {"rope_theta", 10000.0},
      {"vocab_size", kVocabulary.size()},
      {"mask_token_id", kMask},
      {"pad_token_id", kPad},
      {"max_position_embeddings", 1026},  // as the published models; rotary positions know no limit
      {"torch_dtype", "float32"},
  };
  hugging_face::write_fields(config, esm2_fields(), values);
  values["intermediate_size"] = config.inner();
  if (config.label) protein::write_label(*config.label, kClass, values);
  return values.dump(2) + "\n";
}

void check_vocabulary(const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream file(tokenizer::read_file(path, files::kMostSettings).text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find_first_not_of(" \t\r"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    lines.push_back(line);
  }
  for (size_t i = 0; i < std::max(lines.size(), kVocabulary.size()); ++i) {
    const std::string is = i < lines.size() ? strict_json::excerpt(lines[i]) : "not there";
    const std::string must_be = i < kVocabulary.size() ? json(kVocabulary[i]).dump() : "not there";
    if (is != must_be) {
      throw std::runtime_error(path + ": line " + std::to_string(i + 1) + " is " + is + ", must be " +
                               must_be + ": only ESM-2's own vocabulary of 33 tokens is supported");
    }
  }
}

void write_tokenizer(const std::string& folder) {
  const json special = {{"cls_token", "<cls>"},
                        {"eos_token", "<eos>"},
                        {"mask_token", "<mask>"},
                        {"pad_token", "<pad>"},
                        {"unk_token", "<unk>"}};
  json tokenizer = special;
  tokenizer["tokenizer_class"] = "EsmTokenizer";
  tokenizer["clean_up_tokenization_spaces"] = true;
  std::string vocabulary;
  for (const std::string_view token : kVocabulary)
    vocabulary.append(vocabulary.empty() ? "" : "\n").append(token);
  hugging_face::write_text(folder + "/vocab.txt", vocabulary);
  hugging_face::write_text(folder + "/special_tokens_map.json", special.dump(2) + "\n");
  hugging_face::write_text(folder + "/tokenizer_config.json", tokenizer.dump(2) + "\n");
}

adapters::AdaptedModel adapted_model(const Esm2Config& config) {
  using transformer::Layer;
  adapters::AdaptedModel model{.others = {"lm_head.dense"}, .pieces = pieces_of, .task_type = ""};
  if (config.label) {
    model.others = {"classifier", "classifier.dense", "classifier.out_proj"};
    model.value = protein::as_in_folder(config.label);
    model.as_ours = as_learnt(config.label);
  } else {
    model.head = kHead, model.tied_to = kWords;
  }
  const int64_t width = config.hidden_dim, inner = config.inner();
  for (int64_t i = 0; i < config.num_layers; ++i)
    adapters::add_targets(model.targets, concat("esm.encoder.layer.", i, "."), i,
                          static_cast<uint32_t>(i + 1),
                          {{"attention.self.query", &Layer::qkv_additions, 0, width, width, true},
                           {"attention.self.key", &Layer::qkv_additions, width, width, width},
                           {"attention.self.value", &Layer::qkv_additions, 2 * width, width, width, true},
                           {"attention.output.dense", &Layer::projection_additions, 0, width, width},
                           {"intermediate.dense", &Layer::up_additions, 0, width, inner},
                           {"output.dense", &Layer::down_additions, 0, inner, width}});
  return model;
}

Extras import_folder(const std::string& path, const Esm2Config& config, ParameterRegistry& parameters) {
  compare(path, config, read_config(path + "/config.json"));
  check_vocabulary(path + "/vocab.txt");
  Extras extras;
  extras.files = tokenizer::files_beside_tokenizer(path);
  hugging_face::NameMap map{.pieces = pieces_of, .plain_name = plain_name, .head = kHead, .tied_to = kWords};
  if (config.label) map = protein::with_label_head(std::move(map), *config.label, path);
  Extras::each(extras, config, [&](const char* name, const at::Tensor&, const std::vector<int64_t>& shape) {
    map.optional.emplace_back(name, shape);
  });
  const auto weights = hugging_face::import_weights(path, parameters, map);
  Extras::each(extras, config, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    tensor = weights->find(name, shape);
  });
  for (const std::string& name : weights->names()) {
    if (!is_old_frequencies(name)) continue;
    const at::Tensor frequencies = weights->find(name, {config.head_width() / 2});
    if (!extras.frequencies.defined()) extras.frequencies = frequencies;
    if (!frequencies.equal(extras.frequencies))
      throw std::runtime_error(path + ": " + name +
                               " differs from those of other layers: only one set of rotary "
                               "frequencies is supported");
  }
  if (extras.frequencies.defined() &&
      extras.frequencies.equal(transformer::rotary_frequencies(config.head_width())))
    extras.frequencies = at::Tensor();
  return extras;
}

void export_folder(const std::string& path, const Esm2Config& config, const ParameterRegistry& parameters,
                   const Extras& extras,
                   const std::function<at::Tensor(const ParameterRegistry::Declared&)>& value) {
  Extras all = extras;
  if (!all.frequencies.defined()) all.frequencies = transformer::rotary_frequencies(config.head_width());
  std::vector<std::pair<std::string, at::Tensor>> others;
  Extras::each(all, config,
               [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>& shape) {
                 others.emplace_back(name, tensor.defined() ? tensor : at::zeros(shape));
               });
  hugging_face::export_weights(
      path, parameters, {.pieces = pieces_of, .value = protein::as_in_folder(config.label, value)}, others);
  hugging_face::write_text(path + "/config.json", format_config(config));
  write_tokenizer(path);
  tokenizer::write_tokenizer_files(extras.files, path);
}

}  // namespace pipeline::encoder::esm2
