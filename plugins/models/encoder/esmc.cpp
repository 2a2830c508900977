// ESM C (EvolutionaryScale, "ESM Cambrian", 2024): ESM-2 with SwiGLU, without biases of matrices, with a
// layer norm over all queries and one over all keys, and with an output head that is not the word embeddings.
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "plugins/models/encoder/architecture.hpp"
#include "plugins/models/encoder/sequences.hpp"

namespace pipeline::encoder {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

// Tokens by number: ESM-2's but for the break between chains; the model has rows for 64.
constexpr std::array<std::string_view, 33> kEsmcVocabulary = {
    "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E", "R", "T", "I", "D", "P", "K",     "Q",
    "N",     "F",     "Y",     "M",     "H", "W", "C", "X", "B", "U", "Z", "O", ".", "-", "|", "<mask>"};
constexpr int64_t kEsmcRows = 64;
constexpr const char* kTokenizer = "tokenizer.json";

// Our residues have ESM-2's numbers (sequences.hpp).
constexpr bool has_the_tokens_of_esm2() {
  for (size_t i = 0; i < kEsmcVocabulary.size(); ++i)
    if (kEsmcVocabulary[i] != "|" && kEsmcVocabulary[i] != kVocabulary[i]) return false;
  return true;
}
static_assert(has_the_tokens_of_esm2());

int64_t inner_of_esmc(const Config& config) {
  constexpr int64_t kMultiple = 256;
  if (config.intermediate_size != 0) return config.intermediate_size;
  return (8 * config.hidden_size + 3 * kMultiple - 1) / (3 * kMultiple) * kMultiple;
}

hugging_face::ModelFields<Config> esmc_fields() {
  using Field = hugging_face::ModelField<Config>;
  return esm_fields(
      {.layers = "layers: 30 (300M model), 36 (600M)",
       .width = "width: 960, 1152",
       .heads = "attention heads: 15, 18",
       .inner = "width of the gated feed-forward layers; 0: 8/3 x hidden_dim, the next multiple of 256"},
      inner_of_esmc,
      {Field("attention_dropout", &Config::attention_dropout, "of attention weights").share().of_run()});
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

// Checks what transformers' class may say a second time.
void check_heads(const ConfigFile& file, const Config& config) {
  for (const auto& [key, must_be] :
       {std::pair("num_key_value_heads", config.num_attention_heads), {"head_dim", config.head_width()}}) {
    int64_t is = must_be;
    file.read(key, is);
    if (is != must_be)
      file.fail(key, concat("must be ", must_be, ", as hidden_size and num_attention_heads make it"));
  }
}

// Checks the folder's vocabulary, of which it may have none.
void check_esmc_vocabulary(const std::string& path, const tokenizer::Files& files) {
  const auto found = files.find(kTokenizer);
  if (found == files.end()) return;
  const std::string file = path + "/" + kTokenizer;
  const json tokenizer = strict_json::parse(found->second, file);
  const json::json_pointer vocabulary("/model/vocab");
  if (!tokenizer.contains(vocabulary) || !tokenizer.at(vocabulary).is_object())
    fail_with(PL_ERROR_CONFIG, file, ": has no model.vocab with the number of each token");
  const json& numbers = tokenizer.at(vocabulary);
  for (size_t i = 0; i < kEsmcVocabulary.size(); ++i) {
    const std::string token(kEsmcVocabulary[i]);
    const json is = numbers.contains(token) ? numbers.at(token) : json();
    if (is != i)
      fail_with(PL_ERROR_CONFIG, file, ": model.vocab has ", strict_json::excerpt(is), " for ",
                json(token).dump(), ", must have ", i, ": only ESM C's own vocabulary is supported");
  }
}

// Writes the tokenizer's files as EsmcTokenizer does.
void write_esmc_tokenizer(const std::string& folder) {
  json added = json::array(), vocabulary = json::object(), ends = json::object();
  for (size_t i = 0; i < kEsmcVocabulary.size(); ++i) {
    vocabulary[std::string(kEsmcVocabulary[i])] = i;
    if (kEsmcVocabulary[i].front() == '<' || kEsmcVocabulary[i] == "|")
      added.push_back({{"id", i},
                       {"content", kEsmcVocabulary[i]},
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

tokenizer::Files read_esmc_tokenizer(const std::string& folder) {
  tokenizer::Files files = tokenizer::files_beside_tokenizer(folder);
  files.merge(tokenizer::files_of(folder, {kTokenizer}));
  check_esmc_vocabulary(folder, files);
  return files;
}

}  // namespace

const Architecture& esmc() {
  using namespace hugging_face;
  static const Architecture kRow{
      .name = "esmc",
      .type = "esmc",
      .config_class = "EsmcConfig",
      .classes = "Esmc",
      .defaults = {.vocab_size = kEsmcRows,  // the smallest model, 300M parameters
                   .hidden_size = 960,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 15,
                   .intermediate_size = 0,
                   .hidden_act = "gelu"},
      .theirs = {.vocab_size = kEsmcRows,  // the model with 6B parameters
                 .hidden_size = 2560,
                 .num_hidden_layers = 80,
                 .num_attention_heads = 40,
                 .intermediate_size = 6912,
                 .hidden_act = "gelu"},
      .fields = esmc_fields(),
      .others =
          {
              {"num_key_value_heads", kReadElsewhere},
              {"head_dim", kReadElsewhere},
              {"rope_parameters", kReadElsewhere},
              {"rope_scaling", kReadElsewhere},
              {"rope_theta", kReadElsewhere},
              {"vocab_size", only({kEsmcRows})},
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
          },
      .written = {{"architectures", {"EsmcForMaskedLM"}},
                  {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                  {"max_position_embeddings", 2048},
                  {"torch_dtype", "float32"}},
      .read_more =
          [](const ConfigFile& file, Config& config) {
            check_only(file, "rope_theta", only({10000.0}));
            check_rope(file);
            check_heads(file, config);
          },
      .write =
          [](const Config& config, json& values) {
            values["num_key_value_heads"] = config.num_attention_heads;
            values["head_dim"] = config.head_width();
          },
      .names = {.words = "esmc.embed_tokens.weight",
                .layers = "esmc.layers.",
                .layer = {"input_layernorm", "self_attn.qkv_proj", "self_attn.o_proj",
                          "post_attention_layernorm", "mlp.gate_up_proj", "mlp.down_proj"},
                .up = {"gate_proj", "up_proj"},
                .query_norm = "self_attn.q_norm",
                .key_norm = "self_attn.k_norm",
                .last_norm = "esmc.norm",
                .decoder = "lm_head.decoder",
                .of_residues = "score",
                .head_bias = "lm_head.decoder.bias"},
      .has_biases = false,
      .gate = transformer::Gate::kSilu,
      .decays_words = false,
      .divides_branches = true,
      .read_tokenizer = read_esmc_tokenizer,
      .write_tokenizer = write_esmc_tokenizer};
  return kRow;
}

}  // namespace pipeline::encoder
