#include "plugins/tasks/protein/esm2/folder_config.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/json/strict_json.hpp"
#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/tasks/protein/esm2/vocabulary.hpp"

namespace pipeline::protein::esm2 {

using hugging_face::ConfigFile;
using nlohmann::json;

namespace {

// visit(key, value) for what config.json has as we have it.
template <class Config, class Visit>
void each_value(Config& config, Visit&& visit) {
  visit("num_hidden_layers", config.num_layers);
  visit("hidden_size", config.hidden_dim);
  visit("num_attention_heads", config.num_heads);
  visit("intermediate_size", config.intermediate);
  visit("hidden_dropout_prob", config.hidden_dropout);
  visit("attention_probs_dropout_prob", config.attention_dropout);
  visit("token_dropout", config.token_dropout);
  visit("layer_norm_eps", config.layer_norm_epsilon);
  visit("initializer_range", config.initializer_range);
}

}  // namespace

Esm2Config read_config(const std::string& path) {
  const ConfigFile file(path);
  file.require("model_type", "esm");
  file.require("position_embedding_type", "rotary");
  file.expect("emb_layer_norm_before", false);
  file.expect("hidden_act", "gelu");
  file.expect("is_folding_model", false);
  file.expect("is_decoder", false);
  file.expect("add_cross_attention", false);
  file.expect("tie_word_embeddings", true);
  file.expect("rope_theta", 10000.0);
  file.require("vocab_size", kVocabulary.size());
  file.expect("vocab_list", kVocabulary);
  file.require("mask_token_id", kMask);
  file.expect("pad_token_id", kPad);

  Esm2Config config;  // with transformers' defaults
  config.hidden_dim = 768;
  config.num_layers = config.num_heads = 12;
  config.intermediate = 3072;
  config.hidden_dropout = config.attention_dropout = 0.1;
  config.layer_norm_epsilon = 1e-12;
  config.token_dropout = false;
  each_value(config, [&](const char* key, auto& value) { file.read(key, value); });
  return file.checked(config);
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
  each_value(config, [&](const char* key, auto value) { values[key] = value; });
  values["intermediate_size"] = config.inner();
  return values.dump(2) + "\n";
}

void check_vocabulary(const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream file(path, std::ios::binary);
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

}  // namespace pipeline::protein::esm2
