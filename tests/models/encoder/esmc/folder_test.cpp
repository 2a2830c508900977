#include "plugins/models/encoder/esmc_folder.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/models/encoder/esm2/folder_fixture.hpp"
#include "tiny_esmc.hpp"

namespace pipeline::encoder::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EsmcFolderTest : public FolderTest {
 protected:
  EsmcFolderTest() : FolderTest("esmc-"), model_(tiny_esmc()) {
    fill_with_numbers(model_);
    model_.export_folder(folder_);
  }

  std::string error() const {
    Esmc model(tiny_esmc());
    try {
      model.import_folder(folder_);
    } catch (const std::exception& problem) {
      return problem.what();
    }
    return "";
  }

  void expect_same_parameters(double tolerance = 0) const {
    Esmc model(tiny_esmc());
    model.import_folder(folder_);
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      at::Tensor value = at::empty(model.parameters()[i].shape);
      model.parameters().initialize(i, 0, value);
      EXPECT_LE((value - model_.parameters()[i].tensor).abs().max().item<double>(), tolerance)
          << model.parameters()[i].name;
    }
  }

  std::string text(const char* file) const {
    std::stringstream read;
    read << std::ifstream(folder_ / file).rdbuf();
    return read.str();
  }

  Esmc model_;
};

TEST_F(EsmcFolderTest, WhatIsSavedIsReadBack) {
  expect_same_parameters();
  const EsmcConfig read = esmc::read_config(folder_ / "config.json"), saved = tiny_esmc();
  EXPECT_EQ(read.num_layers, saved.num_layers);
  EXPECT_EQ(read.hidden_dim, saved.hidden_dim);
  EXPECT_EQ(read.num_heads, saved.num_heads);
  EXPECT_EQ(read.inner(), saved.inner());
  EXPECT_EQ(read.attention_dropout, 0);
}

TEST_F(EsmcFolderTest, WeightsAreTurnedAndApartAndHaveAllTokens) {
  const Stored tensors = stored();
  at::Tensor qkv, gate_up;
  for (const auto& [name, value] : named(model_)) {
    if (name == "esmc.layers.1.self_attn.qkv_proj.weight") qkv = value.detach();
    if (name == "esmc.layers.1.mlp.gate_up_proj.weight") gate_up = value.detach();
  }
  const std::string layer = "esmc.layers.1.";
  EXPECT_TRUE(tensors.at(layer + "self_attn.k_proj.weight").equal(qkv.narrow(1, 24, 24).t()));
  EXPECT_TRUE(tensors.at(layer + "mlp.gate_proj.weight").equal(gate_up.narrow(1, 0, 50).t()));
  EXPECT_TRUE(tensors.at(layer + "mlp.up_proj.weight").equal(gate_up.narrow(1, 50, 50).t()));
  EXPECT_EQ(tensors.at("esmc.embed_tokens.weight").sizes(), at::IntArrayRef({64, 24}));
  EXPECT_EQ(tensors.at("lm_head.decoder.weight").sizes(), at::IntArrayRef({64, 24}));
  EXPECT_EQ(tensors.count("esmc.norm.bias"), 0);
}

TEST_F(EsmcFolderTest, HalfPrecisionIsConverted) {
  const Stored saved = stored();
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    Stored tensors = saved;
    for (auto& [name, tensor] : tensors) tensor = tensor.to(type);
    write(tensors);
    expect_same_parameters(type == at::kHalf ? 6e-4 : 5e-3);
  }
}

// The tokenizer's files go through a checkpoint's extra state into an export by another process.
TEST_F(EsmcFolderTest, TheTokenizersFilesAreKept) {
  EXPECT_EQ(model_.extra_state(), "");
  const std::string settings = R"({"tokenizer_class": "EsmcTokenizer", "made_up": true})";
  const std::string tokenizer = text("tokenizer.json") + "\n\n";
  std::ofstream(folder_ / "tokenizer_config.json") << settings;
  std::ofstream(folder_ / "tokenizer.json") << tokenizer;
  Esmc importing(tiny_esmc()), exporting(tiny_esmc());
  importing.import_folder(folder_);
  exporting.set_extra_state(importing.extra_state());
  model_.export_folder(folder_);
  EXPECT_NE(text("tokenizer.json"), tokenizer);
  exporting.export_folder(folder_);
  EXPECT_EQ(text("tokenizer_config.json"), settings);
  EXPECT_EQ(text("tokenizer.json"), tokenizer);
  const std::string state = importing.extra_state();
  EXPECT_THROW(exporting.set_extra_state(state.substr(0, state.size() - 1)), std::runtime_error);
}

TEST_F(EsmcFolderTest, EveryDifferentTensorIsInOneError) {
  Stored tensors = stored();
  tensors.erase("esmc.layers.1.self_attn.q_norm.weight");
  tensors.erase("lm_head.decoder.bias");
  tensors["esmc.layers.3.input_layernorm.weight"] = at::ones({24});
  tensors["esmc.layers.0.mlp.down_proj.weight"] = at::ones({50, 24});
  write(tensors);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("missing (2): esmc.layers.1.self_attn.q_norm.weight, lm_head.decoder.bias"),
                    HasSubstr("unexpected (1): esmc.layers.3.input_layernorm.weight"),
                    HasSubstr("esmc.layers.0.mlp.down_proj.weight is [50, 24], must be [24, 50]")));
}

TEST_F(EsmcFolderTest, AModelOfAnotherSizeIsNamedByAllThatDiffers) {
  set_config("num_hidden_layers", 4);
  set_config("intermediate_size", 64);
  EXPECT_THAT(error(), AllOf(HasSubstr("task.esmc.num_layers = 3, the folder has 4"),
                             HasSubstr("task.esmc.intermediate_dim = 50, the folder has 64")));
}

TEST_F(EsmcFolderTest, ModelsThatAreNotEsmcAreRefused) {
  const std::vector<std::tuple<std::string, nlohmann::json, std::string>> cases = {
      {"model_type", "esm", "model_type = \"esm\": this is an esm model; accepted are esmc"},
      {"vocab_size", 33, "vocab_size = 33: only 64"},
      {"mask_token_id", 4, "mask_token_id = 4: only 32"},
      {"hidden_act", "gelu", "hidden_act = \"gelu\": only \"silu\""},
      {"attention_bias", true, "attention_bias = true: only false"},
      {"mlp_bias", true, "mlp_bias = true: only false"},
      {"tie_word_embeddings", true, "tie_word_embeddings = true: only false"},
      {"num_key_value_heads", 1, "num_key_value_heads = 1: must be 3"},
      {"head_dim", 16, "head_dim = 16: must be 8"},
      {"rope_parameters", {{"rope_theta", 500}}, "rope_parameters: rope_theta = 500: only 10000"},
      {"rope_scaling", {{"rope_type", "yarn"}}, "rope_scaling: rope_type = \"yarn\": only \"default\""},
      {"num_attention_heads", 5, "num_heads = 5: must divide hidden_dim (24)"},
      {"hidden_size", "24", "hidden_size = \"24\": must be an integer"},
      {"rms_norm_eps", 1e-6, "rms_norm_eps = 1e-06: is no field of a EsmcConfig"},
  };
  for (const auto& [key, value, message] : cases) {
    model_.export_folder(folder_);
    set_config(key, value);
    EXPECT_THAT(error(), AllOf(HasSubstr("config.json: "), HasSubstr(message)));
  }
}

TEST_F(EsmcFolderTest, AnotherVocabularyIsRefused) {
  nlohmann::json tokenizer = nlohmann::json::parse(text("tokenizer.json"));
  tokenizer["model"]["vocab"]["A"] = 4;
  std::ofstream(folder_ / "tokenizer.json") << tokenizer;
  EXPECT_THAT(error(), HasSubstr("tokenizer.json: model.vocab has 4 for \"A\", must have 5"));
  tokenizer["model"].erase("vocab");
  std::ofstream(folder_ / "tokenizer.json") << tokenizer;
  EXPECT_THAT(error(), HasSubstr("tokenizer.json: has no model.vocab"));
  std::ofstream(folder_ / "tokenizer.json") << "{";
  EXPECT_THAT(error(), HasSubstr("tokenizer.json"));
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_EQ(error(), "");
}

}  // namespace
}  // namespace pipeline::encoder::testing
