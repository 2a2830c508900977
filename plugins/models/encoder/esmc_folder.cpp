#include "plugins/models/encoder/esmc_folder.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/models/encoder/esm2_sequences.hpp"
#include "plugins/models/protein/label_folder.hpp"
#include "tokenizer/text_file.hpp"

namespace pipeline::encoder {

int64_t EsmcConfig::inner() const {
  constexpr int64_t kMultiple = 256;
  if (intermediate != 0) return intermediate;
  return (8 * hidden_dim + 3 * kMultiple - 1) / (3 * kMultiple) * kMultiple;
}

double EsmcConfig::branch_divisor() const { return std::sqrt(static_cast<double>(num_layers) / 36.0); }

Esm2Config EsmcConfig::as_esm2() const {
  Esm2Config config;
  config.num_layers = num_layers;
  config.hidden_dim = hidden_dim;
  config.num_heads = num_heads;
  config.intermediate = inner();
  config.attention_dropout = attention_dropout;
  config.token_dropout = false;
  config.initializer_range = initializer_range;
  config.label = label;
  return config;
}

}  // namespace pipeline::encoder

namespace pipeline::encoder::esmc {
namespace {

using esm2::kCls;
using esm2::kEos;
using esm2::kMask;
using esm2::kPad;
using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

constexpr const char *kTokenizer = "tokenizer.json", *kClass = "Esmc";

// Our residues have ESM-2's numbers (esm2/sequences.hpp).
constexpr bool has_the_tokens_of_esm2() {
  for (size_t i = 0; i < kVocabulary.size(); ++i)
    if (kVocabulary[i] != "|" && kVocabulary[i] != esm2::kVocabulary[i]) return false;
  return true;
}
static_assert(has_the_tokens_of_esm2());

// Weights are (out, in) there and (in, out) here, but for those with a row for each token.
std::vector<Piece> pieces_of(const Parameter& parameter) {
  const std::string& name = parameter.name;
  if (name.starts_with("lora.")) return {};
  const bool has_tokens = name == kWords || name.starts_with(kDecoder);
  const bool turned = parameter.shape.size() == 2 && !has_tokens;
  const int64_t columns = parameter.shape.back();
  if (name.find(".qkv_proj.") != std::string::npos)
    return hugging_face::side_by_side(
        name, "qkv_proj", {{"q_proj", columns / 3}, {"k_proj", columns / 3}, {"v_proj", columns / 3}}, true);
  if (name.find(".gate_up_proj.") != std::string::npos)
    return hugging_face::side_by_side(name, "gate_up_proj",
                                      {{"gate_proj", columns / 2}, {"up_proj", columns / 2}}, true);
  return {{.name = name, .transposed = turned}};
}

const hugging_face::Fields<EsmcConfig>& fields() {
  using namespace hugging_face;
  static const Fields<EsmcConfig> kFields{
      {"num_hidden_layers", &EsmcConfig::num_layers},
      {"hidden_size", &EsmcConfig::hidden_dim},
      {"num_attention_heads", &EsmcConfig::num_heads},
      {"intermediate_size", &EsmcConfig::intermediate},
      {"attention_dropout", &EsmcConfig::attention_dropout},
      {"initializer_range", &EsmcConfig::initializer_range},
      {"num_key_value_heads", kReadElsewhere},
      {"head_dim", kReadElsewhere},
      {"rope_parameters", kReadElsewhere},
      {"rope_scaling", kReadElsewhere},
      {"rope_theta", only({10000.0})},
      {"vocab_size", only({kRows})},
      {"bos_token_id", only({kCls})},
      {"pad_token_id", only({kPad})},
      {"eos_token_id", only({kEos})},
      {"mask_token_id", only({kMask})},
      {"hidden_act", only({"silu"})},
      {"attention_bias", only({false})},
      {"mlp_bias", only({false})},
      {"tie_word_embeddings", only({false})},
      {"max_position_embeddings", kWithoutEffect},  // rotary positions know no limit
      {"classifier_dropout", kWithoutEffect},
  };
  return kFields;
}

struct Rope {};
void check_rope(const ConfigFile& file) {
  using namespace hugging_face;
  static const Fields<Rope> kFields{{"rope_type", only({"default"})},
                                    {"type", only({"default"})},
                                    {"rope_theta", only({10000.0})},
                                    {"partial_rotary_factor", only({1.0})}};
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (file.find(key) != nullptr) read_fields(file.part(key), kFields, "EsmcConfig", Rope{});
}

// What transformers' class may say a second time.
void check_heads(const ConfigFile& file, const EsmcConfig& config) {
  for (const auto& [key, must_be] : {std::pair("num_key_value_heads", config.num_heads),
                                     {"head_dim", config.hidden_dim / config.num_heads}}) {
    int64_t is = must_be;
    file.read(key, is);
    if (is != must_be)
      file.fail(key, concat("must be ", must_be, ", as hidden_size and num_attention_heads make it"));
  }
}

void compare(const std::string& path, const EsmcConfig& ours, const EsmcConfig& theirs) {
  hugging_face::Differences differences;
  differences.compare("task.esmc.num_layers", ours.num_layers, theirs.num_layers);
  differences.compare("task.esmc.hidden_dim", ours.hidden_dim, theirs.hidden_dim);
  differences.compare("task.esmc.num_heads", ours.num_heads, theirs.num_heads);
  differences.compare("task.esmc.intermediate_dim", ours.inner(), theirs.inner());
  protein::compare_label(differences, ours.label, theirs.label);
  differences.raise(path);
}

// A folder may have none.
void check_vocabulary(const std::string& path, const tokenizer::Files& files) {
  const auto found = files.find(kTokenizer);
  if (found == files.end()) return;
  const std::string file = path + "/" + kTokenizer;
  const json tokenizer = strict_json::parse(found->second, file);
  const json::json_pointer vocabulary("/model/vocab");
  if (!tokenizer.contains(vocabulary) || !tokenizer.at(vocabulary).is_object())
    fail_with(PL_ERROR_CONFIG, file, ": has no model.vocab with the number of each token");
  const json& numbers = tokenizer.at(vocabulary);
  for (size_t i = 0; i < kVocabulary.size(); ++i) {
    const std::string token(kVocabulary[i]);
    const json is = numbers.contains(token) ? numbers.at(token) : json();
    if (is != i)
      fail_with(PL_ERROR_CONFIG, file, ": model.vocab has ", strict_json::excerpt(is), " for ",
                json(token).dump(), ", must have ", i, ": only ESM C's own vocabulary is supported");
  }
}

// As EsmcTokenizer writes them.
void write_tokenizer(const std::string& folder) {
  json added = json::array(), vocabulary = json::object(), ends = json::object();
  for (size_t i = 0; i < kVocabulary.size(); ++i) {
    vocabulary[std::string(kVocabulary[i])] = i;
    if (kVocabulary[i].front() == '<' || kVocabulary[i] == "|")
      added.push_back({{"id", i},
                       {"content", kVocabulary[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
  }
  const auto special = [](const char* token) {
    return json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  };
  const auto sequence = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  for (const auto& [token, number] : {std::pair("<cls>", kCls), {"<eos>", kEos}})
    ends[token] = {{"id", token}, {"ids", json::array({number})}, {"tokens", json::array({token})}};
  const json tokenizer{{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", nullptr},
                       {"post_processor",
                        {{"type", "TemplateProcessing"},
                         {"single", json::array({special("<cls>"), sequence("A", 0), special("<eos>")})},
                         {"pair", json::array({sequence("A", 0), sequence("B", 1)})},
                         {"special_tokens", ends}}},
                       {"decoder", nullptr},
                       {"model",
                        {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", "<unk>"},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false},
                         {"vocab", vocabulary},
                         {"merges", json::array()}}}};
  const json settings{{"backend", "tokenizers"}, {"tokenizer_class", "EsmcTokenizer"},
                      {"bos_token", "<cls>"},    {"cls_token", "<cls>"},
                      {"eos_token", "<eos>"},    {"mask_token", "<mask>"},
                      {"pad_token", "<pad>"},    {"unk_token", "<unk>"},
                      {"chain_break_token", "|"}};
  hugging_face::write_text(folder + "/" + kTokenizer, tokenizer.dump(2) + "\n");
  hugging_face::write_text(folder + "/tokenizer_config.json", settings.dump(2) + "\n");
}

}  // namespace

EsmcConfig read_config(const std::string& path) {
  const ConfigFile file(path);
  file.type({"esmc"});
  EsmcConfig config;  // with transformers' defaults, the sizes of the model with 6B parameters
  config.num_layers = 80;
  config.hidden_dim = 2560;
  config.num_heads = 40;
  config.intermediate = 6912;
  config.label = protein::read_label(file, kClass);
  config = file.checked(hugging_face::read_fields(file, fields(), "EsmcConfig", config));
  check_rope(file);
  check_heads(file, config);
  return config;
}

std::string format_config(const EsmcConfig& config) {
  json values = {
      {"model_type", "esmc"},
      {"architectures", {"EsmcForMaskedLM"}},
      {"vocab_size", kRows},
      {"bos_token_id", kCls},
      {"pad_token_id", kPad},
      {"eos_token_id", kEos},
      {"mask_token_id", kMask},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", false},
      {"num_key_value_heads", config.num_heads},
      {"head_dim", config.hidden_dim / config.num_heads},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
      {"max_position_embeddings", 2048},
      {"torch_dtype", "float32"},
  };
  hugging_face::write_fields(config, fields(), values);
  values["intermediate_size"] = config.inner();
  if (config.label) protein::write_label(*config.label, kClass, values);
  return values.dump(2) + "\n";
}

adapters::AdaptedModel adapted_model(const EsmcConfig& config) {
  using transformer::Layer;
  adapters::AdaptedModel model{.others = {"lm_head.dense", kDecoder}, .pieces = pieces_of, .task_type = ""};
  if (config.label) {
    model.others = {"classifier.dense", "classifier.out_proj", "score"};
    model.value = protein::as_in_folder(config.label);
    model.as_ours = as_learnt(config.label);
  }
  const int64_t width = config.hidden_dim, inner = config.inner();
  for (int64_t i = 0; i < config.num_layers; ++i)
    adapters::add_targets(model.targets, concat("esmc.layers.", i, "."), i, static_cast<uint32_t>(i + 1),
                          {{"self_attn.q_proj", &Layer::qkv_additions, 0, width, width, true},
                           {"self_attn.k_proj", &Layer::qkv_additions, width, width, width},
                           {"self_attn.v_proj", &Layer::qkv_additions, 2 * width, width, width, true},
                           {"self_attn.o_proj", &Layer::projection_additions, 0, width, width},
                           {"mlp.gate_proj", &Layer::up_additions, 0, width, inner},
                           {"mlp.up_proj", &Layer::up_additions, inner, width, inner},
                           {"mlp.down_proj", &Layer::down_additions, 0, inner, width}});
  return model;
}

tokenizer::Files import_folder(const std::string& path, const EsmcConfig& config,
                               ParameterRegistry& parameters) {
  compare(path, config, read_config(path + "/config.json"));
  tokenizer::Files files = tokenizer::files_beside_tokenizer(path);
  files.merge(tokenizer::files_of(path, {kTokenizer}));
  check_vocabulary(path, files);
  hugging_face::NameMap map{.pieces = pieces_of};
  if (config.label) map = protein::with_label_head(std::move(map), *config.label, path);
  hugging_face::import_weights(path, parameters, map);
  return files;
}

void export_folder(const std::string& path, const EsmcConfig& config, const ParameterRegistry& parameters,
                   const tokenizer::Files& files,
                   const std::function<at::Tensor(const ParameterRegistry::Declared&)>& value) {
  hugging_face::export_weights(path, parameters,
                               {.pieces = pieces_of, .value = protein::as_in_folder(config.label, value)});
  hugging_face::write_text(path + "/config.json", format_config(config));
  write_tokenizer(path);
  tokenizer::write_tokenizer_files(files, path);
}

}  // namespace pipeline::encoder::esmc
