// Folders of PEFT adapters as they are read: what is computed, and what is refused by name.
// tests/parity/language_parity.py compares with peft.
#include "adapters/peft_folder.hpp"

#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include "core/safetensors/writer.hpp"
#include "language/folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::language {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::message_of;

constexpr const char *kQuery = "model.layers.0.self_attn.q_proj", *kDown = "model.layers.1.mlp.down_proj";

Config tiny(bool tied) {
  return {.vocab_size = 19,
          .max_position_embeddings = 64,
          .hidden_size = 8,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .intermediate_size = 12,
          .tie_word_embeddings = tied};
}

// A folder with LoRA of two matrices, `more` fields and, of zeros, more tensors.
class AdapterFiles : public tests::FilesFolder {
 public:
  explicit AdapterFiles(const ordered_json& more,
                        std::vector<std::pair<std::string, safetensors::Shape>> tensors = {},
                        int64_t query_rank = 2) {
    ordered_json config{{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 4}};
    config.update(more);
    write("adapter_config.json", config.dump());
    for (const auto& [module, in, out, rank] :
         {std::tuple(kQuery, 8, 8, query_rank), {kDown, 12, 8, int64_t{2}}}) {
      tensors.push_back({std::string(module) + ".lora_A.weight", {rank, in}});
      tensors.push_back({std::string(module) + ".lora_B.weight", {out, rank}});
    }
    safetensors::Writer writer(*this / "adapter_model.safetensors");
    for (const auto& [name, shape] : tensors)
      writer.declare("base_model.model." + name, safetensors::Dtype::kF32, shape);
    for (const safetensors::TensorInfo& tensor : writer.layout())
      writer.write(tensor.name, std::vector<std::byte>(tensor.end - tensor.begin));
    writer.finish();
  }
  adapters::LoraConfig read(bool tied = true) const {
    return adapters::read_adapter(path(), adapted_model(tiny(tied)));
  }
  std::string refusal(bool tied = true) const {
    return message_of<Error>([&] { read(tied); });
  }
};

// PEFT gives such a model a head of its own, which an output head that is the embedding cannot be.
TEST(AdapterFolder, AHeadBesideATiedEmbeddingIsRefused) {
  const std::pair<std::string, safetensors::Shape> head{"lm_head.weight", {19, 8}},
      embedding{"model.embed_tokens.weight", {19, 8}};
  const AdapterFiles alone(ordered_json{{"modules_to_save", {"lm_head"}}}, {head});
  EXPECT_THAT(alone.refusal(), HasSubstr("ensure_weight_tying is missing: must be true"));
  EXPECT_THAT(alone.read(/*tied=*/false).modules_to_save, ElementsAre("lm_head"));
  EXPECT_THAT(
      AdapterFiles(ordered_json{{"modules_to_save", {"lm_head"}}, {"ensure_weight_tying", true}}, {head})
          .refusal(),
      HasSubstr("ensure_weight_tying"))
      << "PEFT would have saved the embedding as well";
  EXPECT_THAT(AdapterFiles(ordered_json{{"modules_to_save", {"embed_tokens", "lm_head"}}}, {head, embedding})
                  .refusal(),
              HasSubstr("ensure_weight_tying"));
  const ordered_json tied{{"modules_to_save", {"embed_tokens", "model.embed_tokens"}},
                          {"ensure_weight_tying", true}};
  EXPECT_THAT(AdapterFiles(tied, {head, embedding}).read().modules_to_save,
              ElementsAre("model.embed_tokens"));
}

TEST(AdapterFolder, WhatIsNotComputedIsRefusedByName) {
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, ordered_json>>{{"trainable_token_indices", {1, 2}},
                                                         {"use_dora", true},
                                                         {"lora_bias", true},
                                                         {"bias", "all"},
                                                         {"layer_replication", {{0, 1}, {0, 1}}},
                                                         {"target_parameters", {"mlp.weight"}},
                                                         {"use_qalora", true},
                                                         {"use_bdlora", {{"nblocks", 2}}},
                                                         {"alora_invocation_tokens", {1}},
                                                         {"arrow_config", {{"top_k", 2}}},
                                                         {"megatron_config", {{"hidden_size", 8}}},
                                                         {"corda_config", {{"corda_method", "kpm"}}},
                                                         {"loftq_config", {{"loftq_bits", 4}}},
                                                         {"init_lora_weights", "pissa"},
                                                         {"peft_type", "LOHA"}})
    EXPECT_THAT(AdapterFiles(ordered_json{{key, value}}).refusal(),
                HasSubstr(std::string("adapter_config.json: ") + key + " = "));
  for (const char* key : {"inference_mode", "fan_in_fan_out"})
    EXPECT_EQ(AdapterFiles(ordered_json{{key, true}}).read().rank, 2) << key;
  EXPECT_THAT(
      AdapterFiles(ordered_json::object(), {{"model.embed_tokens.lora_embedding_A", {2, 19}}}).refusal(),
      HasSubstr("LoRA of an embedding is not computed here: train it as a whole, by"));
  EXPECT_THAT(
      AdapterFiles(ordered_json::object(), {{std::string(kQuery) + ".lora_magnitude_vector", {8}}}).refusal(),
      HasSubstr("lora_magnitude_vector: is no part of a LoRA that is computed here"));
}

TEST(AdapterFolder, PatternsAreThoseThatMeanAMatrixInTheirOrder) {
  const AdapterFiles folder(
      ordered_json::parse(
          R"({"rank_pattern": {"self_attn.q_proj": 7, "layers.0.*": 3, "k_proj": 5}, "alpha_pattern": {"down_proj": 2.5}})"),
      {}, 7);
  EXPECT_THAT(
      AdapterFiles(ordered_json{{"rank_pattern", {{"q_proj", 7}}}}).refusal(),
      HasSubstr("q_proj.lora_A.weight is of rank 2, and r and rank_pattern of adapter_config.json say 7"));
  const adapters::LoraConfig config = folder.read();
  EXPECT_THAT(config.rank_pattern, ElementsAre("self_attn.q_proj = 7", "layers.0.* = 3"));
  EXPECT_THAT(config.alpha_pattern, ElementsAre("down_proj = 2.5"));
  EXPECT_EQ(config.rank_of(kQuery), 7) << "the first of the file, not of the alphabet";
  EXPECT_EQ(config.rank_of(kDown), 2);
  EXPECT_EQ(config.scale(kDown), 2.5 / 2);
  EXPECT_EQ(config.scale(kQuery), 4.0 / 7);
  EXPECT_EQ(config.rank_of("model.layers.0.self_attn.my_q_proj"), 3) << "a name begins behind a dot";
  EXPECT_THAT(AdapterFiles(ordered_json{{"rank_pattern", {{"(", 3}}}}).refusal(),
              HasSubstr("no regular expression"));
  EXPECT_THAT(AdapterFiles(ordered_json{{"rank_pattern", {{"q_proj", 2.5}}}}).refusal(),
              HasSubstr("must be an integer"));
  EXPECT_THAT(AdapterFiles(ordered_json{{"alpha_pattern", {{"q_proj", 0}}}}).refusal(),
              HasSubstr("a number above 0"));
}

TEST(AdapterTargets, AreAllMatricesOfLayersOrSaidToBeNone) {
  const auto all = lora_targets(tiny(true));
  EXPECT_EQ(adapters::chosen({.rank = 2, .targets = {"all-linear"}}, all).targets.size(), all.size());
  EXPECT_EQ(all.size(), 14) << "seven of each layer";
  EXPECT_THAT(adapters::chosen({.rank = 2, .targets = {"q_proj", "embed_tokens"}}, all).problem,
              HasSubstr("train it as a whole, lora.modules_to_save = [\"embed_tokens\"]"));
  EXPECT_THAT(
      adapters::chosen({.rank = 2, .rank_pattern = {"k_proj = 4"}, .targets = {"q_proj"}}, all).problem,
      HasSubstr("no matrix that lora.rank_pattern means by \"k_proj\""));
}

}  // namespace
}  // namespace pipeline::language
