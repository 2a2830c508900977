// ESM-2 (Lin et al., "Evolutionary-scale prediction of atomic-level protein structure with a language model",
// Science 379, 2023): a GELU, biases, and word embeddings that are the output head as well.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "plugins/models/encoder/protein_folder.hpp"
#include "plugins/models/encoder/sequences.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace pipeline::encoder {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

// transformers 5 writes the norms of layers under the names that TensorFlow has for them, and folders have
// what rotary positions make no use of.
std::string esm2_name(const std::string& name) {
  if (name == "esm.embeddings.position_ids" || name == "esm.embeddings.position_embeddings.weight" ||
      name.ends_with(kOldFrequencies))
    return "";
  for (const auto& [from, to] :
       {std::pair(".LayerNorm.gamma", ".LayerNorm.weight"), {".LayerNorm.beta", ".LayerNorm.bias"}})
    if (name.ends_with(from)) return name.substr(0, name.size() - std::string(from).size()) + to;
  return name;
}

int64_t inner_of_esm2(const Config& config) {
  return config.intermediate_size > 0 ? config.intermediate_size : 4 * config.hidden_size;
}

hugging_face::ModelFields<Config> esm2_fields() {
  using Field = hugging_face::ModelField<Config>;
  return esm_fields({.layers = "layers: 6 (8M model), 12 (35M), 30 (150M), 33 (650M)",
                     .width = "width: 320, 480, 640, 1280",
                     .heads = "attention heads; 20 in all four",
                     .inner = "width of the feed-forward layers; 0: 4 x hidden_dim"},
                    inner_of_esm2,
                    {
                        Field("layer_norm_epsilon", &Config::layer_norm_eps,
                              "added to the variance in layer norms; 1e-5 in all four")
                            .positive()
                            .called("layer_norm_eps"),
                        Field("token_dropout", &Config::token_dropout,
                              "zero the embeddings of masked residues and rescale the others, as ESM-2 does"),
                        Field("hidden_dropout", &Config::hidden_dropout, "before each residual addition")
                            .share()
                            .of_run()
                            .called("hidden_dropout_prob"),
                        Field("attention_dropout", &Config::attention_dropout, "of attention weights")
                            .share()
                            .of_run()
                            .called("attention_probs_dropout_prob"),
                    });
}

void check_esm2_vocabulary(const std::string& path) {
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

void write_esm2_tokenizer(const std::string& folder) {
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

}  // namespace

const Architecture& esm2() {
  using namespace hugging_face;
  static const Architecture kRow{
      .name = "esm2",
      .type = "esm",
      .config_class = "EsmConfig",
      .classes = "Esm",
      .defaults = {.vocab_size = kVocabulary.size(),  // the smallest model, 8M parameters
                   .hidden_size = 320,
                   .num_hidden_layers = 6,
                   .num_attention_heads = 20,
                   .intermediate_size = 0,
                   .hidden_act = "gelu",
                   .token_dropout = true},
      .theirs = {.vocab_size = kVocabulary.size(),
                 .hidden_size = 768,
                 .num_hidden_layers = 12,
                 .num_attention_heads = 12,
                 .intermediate_size = 3072,
                 .layer_norm_eps = 1e-12,
                 .hidden_act = "gelu",
                 .hidden_dropout = 0.1,
                 .attention_dropout = 0.1},
      .fields = esm2_fields(),
      .others =
          {
              {"position_embedding_type", required("rotary")},
              {"vocab_size", required(kVocabulary.size())},
              {"mask_token_id", required(kMask)},
              {"pad_token_id", only({kPad})},
              {"vocab_list", kReadElsewhere},
              {"emb_layer_norm_before", only({false})},
              {"hidden_act", only({"gelu"})},
              {"is_folding_model", only({false})},
              {"esmfold_config", only({nullptr})},
              {"tie_word_embeddings", only({true})},
              {"rope_theta", only({10000.0})},
              {"max_position_embeddings", kWithoutEffect},  // rotary positions know no limit
              {"classifier_dropout", kWithoutEffect},
          },
      .written = {{"architectures", {"EsmForMaskedLM"}},
                  {"max_position_embeddings", 1026},  // as in the published models
                  {"torch_dtype", "float32"}},
      .read_more = [](const ConfigFile& file,
                      Config&) { check_only(file, "vocab_list", only({kVocabulary})); },
      .names = {.words = "esm.embeddings.word_embeddings.weight",
                .layers = "esm.encoder.layer.",
                .layer = {"attention.LayerNorm", "attention.self.qkv", "attention.output.dense", "LayerNorm",
                          "intermediate.dense", "output.dense"},
                .qkv = {"query", "key", "value"},
                .last_norm = "esm.encoder.emb_layer_norm_after",
                .of_residues = "classifier",
                .head_bias = "lm_head.bias"},
      .decays_words = false,
      .read_tokenizer =
          [](const std::string& folder) {
            check_esm2_vocabulary(folder + "/vocab.txt");
            return tokenizer::files_beside_tokenizer(folder);
          },
      .write_tokenizer = write_esm2_tokenizer,
      .plain_name = esm2_name,
      .has_extras = true};
  return kRow;
}

}  // namespace pipeline::encoder
