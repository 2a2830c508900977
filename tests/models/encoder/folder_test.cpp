#include "plugins/models/encoder/protein_folder.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/model_folder.hpp"
#include "tests/support/test_files.hpp"
#include "tiny_model.hpp"

namespace pipeline::encoder::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::FolderTest;
using tests::Stored;

class EncoderFolderTest : public FolderTest {
 protected:
  explicit EncoderFolderTest(const Architecture& row) : FolderTest(concat(row.name, "-")), row_(row) {
    fill_with_numbers(model_);
    model_.export_folder(folder_);
  }

  Config tiny() const { return tiny_config(row_); }
  std::string error() const {
    ProteinEncoder model(row_, tiny());
    return tests::message_of<std::exception>([&] { model.import_folder(folder_); }, "");
  }

  void expect_same_parameters(double tolerance = 0) const {
    ProteinEncoder model(row_, tiny());
    model.import_folder(folder_);
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      at::Tensor value = at::empty(model.parameters()[i].shape);
      model.parameters().initialize(i, 0, value);
      EXPECT_LE((value - model_.parameters()[i].tensor).abs().max().item<double>(), tolerance)
          << model.parameters()[i].name;
    }
  }

  at::Tensor parameter(const std::string& wanted) const {
    for (const auto& [name, value] : named(model_))
      if (name == wanted) return value.detach();
    return {};
  }

  std::string text(const char* file) const {
    std::stringstream read;
    read << std::ifstream(folder_ / file).rdbuf();
    return read.str();
  }

  // {key, value, what the error has}
  void expect_refused(const std::vector<std::tuple<std::string, nlohmann::json, std::string>>& cases) const {
    for (const auto& [key, value, message] : cases) {
      model_.export_folder(folder_);
      set_config(key, value);
      EXPECT_THAT(error(), AllOf(HasSubstr("config.json: "), HasSubstr(message)));
    }
    model_.export_folder(folder_);
  }

  const Architecture& row_;
  ProteinEncoder model_{row_, tiny_config(row_)};
};

class Esm2FolderTest : public EncoderFolderTest {
 protected:
  Esm2FolderTest() : EncoderFolderTest(esm2()) {}
};
class EsmcFolderTest : public EncoderFolderTest {
 protected:
  EsmcFolderTest() : EncoderFolderTest(esmc()) {}
};

class EncoderFolders : public EncoderFolderTest, public ::testing::WithParamInterface<const Architecture*> {
 protected:
  EncoderFolders() : EncoderFolderTest(*GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(All, EncoderFolders, ::testing::Values(&esm2(), &esmc()),
                         [](const auto& is) { return std::string(is.param->name); });

TEST_P(EncoderFolders, WhatIsSavedIsReadBack) {
  expect_same_parameters();
  const Config read = read_config(row_, folder_ / "config.json"), saved = tiny();
  EXPECT_EQ(read.num_hidden_layers, saved.num_hidden_layers);
  EXPECT_EQ(read.hidden_size, saved.hidden_size);
  EXPECT_EQ(read.num_attention_heads, saved.num_attention_heads);
  EXPECT_EQ(row_.inner(read), row_.inner(saved));
  EXPECT_EQ(read.token_dropout, saved.token_dropout);
  EXPECT_EQ(read.hidden_dropout, 0);
  EXPECT_EQ(read.attention_dropout, 0);
  EXPECT_EQ(read.layer_norm_eps, saved.layer_norm_eps);
}

TEST_F(Esm2FolderTest, WeightsAreTurnedAndQueryKeyAndValueAreApart) {
  const Stored tensors = stored();
  const std::string layer = "esm.encoder.layer.1.";
  const at::Tensor qkv = parameter(layer + "attention.self.qkv.weight"),
                   up = parameter(layer + "intermediate.dense.weight");
  EXPECT_TRUE(tensors.at(layer + "attention.self.key.weight").equal(qkv.narrow(1, 24, 24).t()));
  EXPECT_TRUE(tensors.at(layer + "attention.self.value.weight").equal(qkv.narrow(1, 48, 24).t()));
  EXPECT_TRUE(tensors.at(layer + "intermediate.dense.weight").equal(up.t()));
  EXPECT_EQ(tensors.at("esm.embeddings.word_embeddings.weight").sizes(), at::IntArrayRef({33, 24}));
  EXPECT_EQ(tensors.count("lm_head.decoder.weight"), 0);
}

TEST_F(EsmcFolderTest, WeightsAreTurnedAndApartAndHaveAllTokens) {
  const Stored tensors = stored();
  const std::string layer = "esmc.layers.1.";
  const at::Tensor qkv = parameter(layer + "self_attn.qkv_proj.weight"),
                   gate_up = parameter(layer + "mlp.gate_up_proj.weight");
  EXPECT_TRUE(tensors.at(layer + "self_attn.k_proj.weight").equal(qkv.narrow(1, 24, 24).t()));
  EXPECT_TRUE(tensors.at(layer + "mlp.gate_proj.weight").equal(gate_up.narrow(1, 0, 50).t()));
  EXPECT_TRUE(tensors.at(layer + "mlp.up_proj.weight").equal(gate_up.narrow(1, 50, 50).t()));
  EXPECT_EQ(tensors.at("esmc.embed_tokens.weight").sizes(), at::IntArrayRef({64, 24}));
  EXPECT_EQ(tensors.at("lm_head.decoder.weight").sizes(), at::IntArrayRef({64, 24}));
  EXPECT_EQ(tensors.count("esmc.norm.bias"), 0);
}

TEST_F(Esm2FolderTest, WhatOtherVersionsWriteIsAccepted) {
  Stored tensors = stored();
  tensors["lm_head.decoder.weight"] = tensors["esm.embeddings.word_embeddings.weight"];
  tensors["esm.embeddings.position_ids"] = at::arange(1026, at::kLong).unsqueeze(0);
  tensors["esm.embeddings.position_embeddings.weight"] = at::ones({1026, 24});
  tensors["esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq"] =
      tensors["esm.rotary_embeddings.inv_freq"];
  tensors.erase("esm.rotary_embeddings.inv_freq");
  Stored renamed;  // transformers 5.23 names them so
  for (const auto& [name, value] : tensors) {
    std::string other = name;
    if (const size_t at = name.find(".LayerNorm.weight"); at != std::string::npos)
      other = name.substr(0, at) + ".LayerNorm.gamma";
    if (const size_t at = name.find(".LayerNorm.bias"); at != std::string::npos)
      other = name.substr(0, at) + ".LayerNorm.beta";
    renamed[other] = value;
  }
  write(tensors);
  expect_same_parameters();
  write(renamed);
  expect_same_parameters();
  std::filesystem::remove(folder_ / "vocab.txt");
  expect_same_parameters();
}

TEST_P(EncoderFolders, HalfPrecisionIsConverted) {
  const Stored saved = stored();
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    Stored tensors = saved;
    for (auto& [name, tensor] : tensors) tensor = tensor.to(type);
    write(tensors);
    expect_same_parameters(type == at::kHalf ? 6e-4 : 5e-3);
  }
}

TEST_P(EncoderFolders, ShardsAreRead) {
  const Stored tensors = stored();
  std::filesystem::remove(folder_ / "model.safetensors");
  Stored shards[2];
  nlohmann::json map;
  for (const auto& [name, value] : tensors) {
    const size_t shard = shards[0].size() < tensors.size() / 2 ? 0 : 1;
    shards[shard][name] = value;
    map[name] = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
  }
  write(shards[0], "model-00001-of-00002.safetensors");
  write(shards[1], "model-00002-of-00002.safetensors");
  std::ofstream(folder_ / "model.safetensors.index.json")
      << nlohmann::json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}};
  expect_same_parameters();
}

// The head that predicts contacts, and frequencies as they were in training, go through a checkpoint's extra
// state into an export by another process.
TEST_F(Esm2FolderTest, WhatIsNotTrainedIsKept) {
  Stored tensors = stored();
  EXPECT_EQ(tensors.at("esm.contact_head.regression.weight").sizes(), at::IntArrayRef({1, 9}));
  EXPECT_TRUE(tensors.at("esm.contact_head.regression.weight").eq(0).all().item<bool>());
  EXPECT_EQ(model_.extra_state(), "");
  tensors["esm.contact_head.regression.weight"] = at::rand({1, 9});
  tensors["esm.contact_head.regression.bias"] = at::rand({1});
  tensors["esm.rotary_embeddings.inv_freq"] = tensors["esm.rotary_embeddings.inv_freq"] * 0.5;
  write(tensors);
  const std::string config = R"({"model_max_length": 1024, "made_up": true})";
  std::ofstream(folder_ / "tokenizer_config.json") << config;
  ProteinEncoder importing(row_, tiny()), exporting(row_, tiny());
  importing.import_folder(folder_);
  std::ofstream(folder_ / "tokenizer_config.json") << "{}";
  exporting.set_extra_state(importing.extra_state());
  fill_with_numbers(importing);
  fill_with_numbers(exporting);
  exporting.export_folder(folder_);
  EXPECT_EQ(text("tokenizer_config.json"), config);
  EXPECT_THROW(exporting.set_extra_state(R"({"files": {"../x": ""}})"), std::runtime_error);
  const Stored again = stored();
  for (const auto& [name, value] : tensors) EXPECT_TRUE(again.at(name).equal(value)) << name;
  const protein::PackedProteins batch = batch_of(tiny_samples());
  EXPECT_TRUE(exporting.logits(batch, {}).equal(importing.logits(batch, {})));
  EXPECT_FALSE(exporting.logits(batch, {}).equal(model_.logits(batch, {})));
}

// The tokenizer's files go through a checkpoint's extra state into an export by another process.
TEST_F(EsmcFolderTest, TheTokenizersFilesAreKept) {
  EXPECT_EQ(model_.extra_state(), "");
  const std::string settings = R"({"tokenizer_class": "EsmcTokenizer", "made_up": true})";
  const std::string tokenizer = text("tokenizer.json") + "\n\n";
  std::ofstream(folder_ / "tokenizer_config.json") << settings;
  std::ofstream(folder_ / "tokenizer.json") << tokenizer;
  ProteinEncoder importing(row_, tiny()), exporting(row_, tiny());
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

TEST_F(Esm2FolderTest, FrequenciesOfEachLayerInOlderFoldersAreTaken) {
  Stored tensors = stored();
  const at::Tensor rounded = tensors["esm.rotary_embeddings.inv_freq"].to(at::kHalf).to(at::kFloat);
  tensors.erase("esm.rotary_embeddings.inv_freq");
  for (const char* layer : {"0", "1", "2"})
    tensors[std::string("esm.encoder.layer.") + layer + ".attention.self.rotary_embeddings.inv_freq"] =
        rounded;
  write(tensors);
  ProteinEncoder model(row_, tiny());
  model.import_folder(folder_);
  fill_with_numbers(model);
  model.export_folder(folder_);
  EXPECT_TRUE(stored().at("esm.rotary_embeddings.inv_freq").equal(rounded));
}

TEST_F(Esm2FolderTest, FrequenciesThatDifferBetweenLayersAreRefused) {
  Stored tensors = stored();
  const at::Tensor frequencies = tensors["esm.rotary_embeddings.inv_freq"];
  tensors.erase("esm.rotary_embeddings.inv_freq");
  for (const int layer : {0, 1})
    tensors["esm.encoder.layer." + std::to_string(layer) + ".attention.self.rotary_embeddings.inv_freq"] =
        frequencies * (1 + layer);
  write(tensors);
  ProteinEncoder importing(row_, tiny());
  try {
    importing.import_folder(folder_);
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("layer.1.attention.self.rotary_embeddings.inv_freq differs from those of other layers"));
  }
}

TEST_F(Esm2FolderTest, ExtraStateOfAnotherModelIsRefused) {
  Stored tensors = stored();
  tensors["esm.contact_head.regression.bias"] = at::rand({1});
  write(tensors);
  ProteinEncoder model(row_, tiny());
  model.import_folder(folder_);
  const std::string state = model.extra_state();
  Config other = tiny();
  other.num_hidden_layers = 2;
  EXPECT_THROW(ProteinEncoder(row_, other).set_extra_state(state), std::runtime_error);
  EXPECT_THROW(ProteinEncoder(row_, tiny()).set_extra_state("{\"other\": [1]}"), std::runtime_error);
  EXPECT_THROW(ProteinEncoder(row_, tiny()).set_extra_state(state.substr(0, state.size() - 1)),
               std::runtime_error);
  EXPECT_THROW(ProteinEncoder(row_, tiny()).set_extra_state("{\"esm.contact_head.regression.bias\": [null]}"),
               std::runtime_error);
}

TEST_F(Esm2FolderTest, EveryDifferentTensorIsInOneError) {
  Stored tensors = stored();
  tensors.erase("esm.encoder.layer.1.attention.self.key.bias");
  tensors.erase("lm_head.bias");
  tensors["esm.encoder.layer.3.LayerNorm.weight"] = at::ones({24});
  tensors["esm.encoder.layer.0.intermediate.dense.weight"] = at::ones({24, 50});
  write(tensors);
  EXPECT_THAT(
      error(),
      AllOf(HasSubstr("missing (2): esm.encoder.layer.1.attention.self.key.bias, lm_head.bias"),
            HasSubstr("unexpected (1): esm.encoder.layer.3.LayerNorm.weight"),
            HasSubstr("esm.encoder.layer.0.intermediate.dense.weight is [24, 50], must be [50, 24]")));
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

TEST_F(Esm2FolderTest, OddTensorsAreRefused) {
  Stored tensors = stored();
  tensors["lm_head.decoder.weight"] = tensors["esm.embeddings.word_embeddings.weight"] + 1;
  write(tensors);
  EXPECT_THAT(error(),
              HasSubstr("lm_head.decoder.weight differs from esm.embeddings.word_embeddings.weight"));
  tensors.erase("lm_head.decoder.weight");
  tensors["esm.encoder.layer.0.LayerNorm.gamma"] = at::ones({24});
  write(tensors);
  EXPECT_THAT(error(),
              HasSubstr("twice, under an old and a new name (1): esm.encoder.layer.0.LayerNorm.weight"));
  tensors.erase("esm.encoder.layer.0.LayerNorm.gamma");
  tensors["esm.contact_head.regression.bias"] = at::full({1}, NAN);
  write(tensors);
  EXPECT_THAT(error(), HasSubstr("esm.contact_head.regression.bias has values that are not finite"));
  tensors["lm_head.bias"] = at::ones({33}, at::kLong);
  write(tensors);
  EXPECT_THAT(error(), HasSubstr("lm_head.bias has dtype I64"));
  std::ofstream(folder_ / "model.safetensors") << "not safetensors";
  EXPECT_THAT(error(), HasSubstr("model.safetensors"));
  std::filesystem::remove(folder_ / "model.safetensors");
  EXPECT_THAT(error(), HasSubstr(folder_.string()));
}

TEST_F(Esm2FolderTest, AModelOfAnotherSizeIsNamedByAllThatDiffers) {
  set_config("num_hidden_layers", 4);
  set_config("token_dropout", false);
  EXPECT_THAT(error(), AllOf(HasSubstr("task.esm2.num_layers = 3, the folder has 4"),
                             HasSubstr("task.esm2.token_dropout = true, the folder has false")));
}

TEST_F(EsmcFolderTest, AModelOfAnotherSizeIsNamedByAllThatDiffers) {
  set_config("num_hidden_layers", 4);
  set_config("intermediate_size", 64);
  EXPECT_THAT(error(), AllOf(HasSubstr("task.esmc.num_layers = 3, the folder has 4"),
                             HasSubstr("task.esmc.intermediate_dim = 50, the folder has 64")));
}

TEST_F(Esm2FolderTest, ModelsThatAreNotEsm2AreRefused) {
  expect_refused({
      {"model_type", "bert", "model_type = \"bert\": this is a bert model; accepted are esm"},
      {"position_embedding_type", "absolute", "position_embedding_type = \"absolute\": only \"rotary\""},
      {"emb_layer_norm_before", true, "emb_layer_norm_before = true: only false"},
      {"is_folding_model", true, "is_folding_model = true: only false"},
      {"hidden_act", "relu", "hidden_act = \"relu\": only \"gelu\""},
      {"vocab_size", 34, "vocab_size = 34: only 33"},
      {"mask_token_id", 4, "mask_token_id = 4: only 32"},
      {"vocab_list", {"A", "B"}, "vocab_list ="},
      {"rope_theta", 500, "rope_theta = 500: only 10000"},
      {"is_decoder", true, "is_decoder = true: only false"},
      {"num_attention_heads", 5, "num_heads = 5: must divide hidden_dim (24)"},
      {"hidden_size", "24", "hidden_size = \"24\": must be an integer"},
      {"token_dropout", 1, "token_dropout = 1: must be true or false"},
  });
  set_config("position_embedding_type", nullptr);  // transformers takes "absolute" then
  EXPECT_THAT(error(), HasSubstr("position_embedding_type is missing"));
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_THAT(error(), HasSubstr("config.json: is not there"));
}

TEST_F(EsmcFolderTest, ModelsThatAreNotEsmcAreRefused) {
  expect_refused({
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
  });
}

TEST_F(Esm2FolderTest, AnotherVocabularyIsRefused) {
  std::ofstream(folder_ / "vocab.txt") << "<cls>\n<pad>\n<eos>\n<unk>\nA\n";
  EXPECT_THAT(error(), HasSubstr("vocab.txt: line 5 is \"A\", must be \"L\""));
  std::ofstream(folder_ / "vocab.txt") << "<cls>\r\n<pad>\r\n";
  EXPECT_THAT(error(), HasSubstr("vocab.txt: line 3 is not there, must be \"<eos>\""));
  std::filesystem::remove(folder_ / "vocab.txt");
  ASSERT_EQ(::mkfifo((folder_ / "vocab.txt").c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("vocab.txt: is a pipe (FIFO), must be a regular file"));
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
