#include "language/folder.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/safetensors/file.hpp"
#include "hugging_face/token_ids.hpp"
#include "hugging_face/weights.hpp"
#include "tests/support/model_folder.hpp"
#include "tests/support/test_files.hpp"
#include "tiny_model.hpp"

namespace pipeline::language::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::Stored;

class HuggingFaceTest : public tests::FolderTest {
 protected:
  HuggingFaceTest() : FolderTest("gpt2-"), model_(tiny_config()) {
    fill_by_formula(model_);
    export_model(folder_, model_);
  }

  // The model's parameters by the names of openai-community/gpt2, without prefix.
  Stored bare() const {
    Stored tensors;
    for (const auto& parameter : model_.parameters())
      tensors[parameter.name.substr(std::string("transformer.").size())] = parameter.tensor.detach();
    return tensors;
  }

  void write_config(const std::string& text) const { std::ofstream(folder_ / "config.json") << text; }

  std::string error() const {
    return tests::message_of<std::exception>([&] {
      LanguageModel model(tiny_config());
      import_model(folder_, model);
    });
  }

  void expect_same_parameters(double tolerance = 0) const {
    LanguageModel read(tiny_config());
    import_model(folder_, read);
    tests::initialize(read);
    for (size_t i = 0; i < read.parameters().size(); ++i) {
      const double difference =
          (read.parameters()[i].tensor - model_.parameters()[i].tensor).abs().max().item<double>();
      EXPECT_LE(difference, tolerance) << read.parameters()[i].name;
    }
  }

  LanguageModel model_;
};

// The rows that a padded embedding has behind its tokens'.
TEST_F(HuggingFaceTest, RowsOfATableAreFoundByItsOldName) {
  write(bare());
  const adapters::AdaptedModel adapted = adapted_model(model_.config());
  const int64_t rows = model_.config().vocab_size;
  const at::Tensor last =
      hugging_face::rows_from(folder_, "transformer.wte.weight", rows - 2, adapted.plain_name);
  ASSERT_TRUE(last.defined());
  EXPECT_TRUE(last.equal(model_.parameters()[0].tensor.detach().narrow(0, rows - 2, 2)));
  EXPECT_FALSE(
      hugging_face::rows_from(folder_, "transformer.wte.weight", rows, adapted.plain_name).defined());
}

TEST_F(HuggingFaceTest, WhatIsSavedIsReadBack) {
  expect_same_parameters();
  const Config read = read_config(hugging_face::ConfigFile(folder_ / "config.json")), saved = tiny_config();
  EXPECT_EQ(read.hidden_size, saved.hidden_size);
  EXPECT_EQ(read.num_hidden_layers, saved.num_hidden_layers);
  EXPECT_EQ(read.num_attention_heads, saved.num_attention_heads);
  EXPECT_EQ(read.inner(), saved.inner());
  EXPECT_EQ(read.vocab_size, saved.vocab_size);
  EXPECT_EQ(read.max_position_embeddings, saved.max_position_embeddings);
  EXPECT_EQ(read.residual_dropout, 0);
  EXPECT_EQ(read.norm_eps, saved.norm_eps);
}

// Llama 3 Instruct's folders have several end tokens.
TEST_F(HuggingFaceTest, AllEndTokensOfAFolderAreKept) {
  using hugging_face::end_tokens;
  const hugging_face::OwnTokens own{82, 84, [](int64_t id) { return id >= 80; }};
  hugging_face::FolderTexts texts{
      {"config.json", R"({"eos_token_id": [81, 83, 5], "pad_token_id": 80, "bos_token_id": 82})"},
      {"generation_config.json", R"({"eos_token_id": 83, "temperature": 0.6})"}};
  EXPECT_EQ(end_tokens(texts, own), (std::vector<int64_t>{84, 81, 83}));
  EXPECT_EQ(
      hugging_face::unknown_tokens(texts, own, "m"),
      std::vector<std::string>{"m: eos_token_id = 5 there; here it is 84, the tokenizer's end of text"});
  EXPECT_EQ(
      hugging_face::unknown_tokens({{"config.json", R"({"bos_token_id": 6})"}}, own, "m"),
      std::vector<std::string>{"m: bos_token_id = 6 there; here it is 82, the tokenizer's begin of text"});
  const auto written = [&](const char* name) {
    hugging_face::write_token_ids(folder_, texts, own);
    return nlohmann::json::parse(std::ifstream(folder_ / name));
  };
  const auto config = written("config.json"), generation = written("generation_config.json");
  EXPECT_EQ(config["eos_token_id"], nlohmann::json({81, 83, 84}));
  EXPECT_EQ(config["pad_token_id"], 80);
  EXPECT_EQ(config["bos_token_id"], 82);
  EXPECT_EQ(config["n_embd"], tiny_config().hidden_size) << "all else is the model's own";
  EXPECT_EQ(generation, nlohmann::json({{"eos_token_id", {83, 84, 81}}, {"temperature", 0.6}}));

  texts = {{"config.json", R"({"text_config": {"eos_token_id": 81}, "pad_token_id": 3})"}};
  EXPECT_EQ(end_tokens(texts, own), (std::vector<int64_t>{84, 81}));
  texts["generation_config.json"] = R"({"eos_token_id": [81, "x"]})";
  EXPECT_THROW(end_tokens(texts, own), Error);
  texts.clear();
  export_model(folder_, model_);
  EXPECT_EQ(written("generation_config.json"), nlohmann::json({{"bos_token_id", 84}, {"eos_token_id", 84}}));
}

TEST_F(HuggingFaceTest, SavedNamesHaveThePrefixAndNoHead) {
  const safetensors::Folder folder = safetensors::Folder::open(folder_);
  EXPECT_EQ(folder.size(), model_.parameters().size());
  EXPECT_NE(folder.find("transformer.h.2.mlp.c_proj.weight"), nullptr);
  EXPECT_EQ(folder.find("lm_head.weight"), nullptr);
  EXPECT_EQ(folder.files().front().metadata().at("format"), "pt");
}

TEST_F(HuggingFaceTest, BareNamesMasksAndTiedHeadAreAccepted) {
  auto tensors = bare();
  tensors["h.0.attn.bias"] = at::ones({1, 1, 32, 32});
  tensors["lm_head.weight"] = tensors.at("wte.weight");
  write(tensors);
  expect_same_parameters();
}

TEST_F(HuggingFaceTest, HalfPrecisionIsConverted) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    auto tensors = bare();
    for (auto& [name, value] : tensors) value = value.to(type);
    write(tensors);
    expect_same_parameters(type == at::kHalf ? 6e-4 : 5e-3);
  }
}

TEST_F(HuggingFaceTest, ShardsAreRead) {
  const auto tensors = bare();
  const auto middle = std::next(tensors.begin(), 10);
  const Stored first(tensors.begin(), middle), second(middle, tensors.end());
  std::filesystem::remove(folder_ / "model.safetensors");
  write(first, "model-00001-of-00002.safetensors");
  write(second, "model-00002-of-00002.safetensors");
  nlohmann::json map;
  for (const auto& [name, value] : first) map[name] = "model-00001-of-00002.safetensors";
  for (const auto& [name, value] : second) map[name] = "model-00002-of-00002.safetensors";
  std::ofstream(folder_ / "model.safetensors.index.json")
      << nlohmann::json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}};
  expect_same_parameters();
}

TEST_F(HuggingFaceTest, AFolderMayHoldAPartOfTheParameters) {
  Stored tensors;
  for (const auto& [name, value] : bare())
    if (name != "wpe.weight") tensors["decoder." + name] = value;
  write(tensors);
  LanguageModel read(tiny_config());
  hugging_face::import_weights(folder_, read.parameters(), {.pieces = [](const Parameter& parameter) {
                                 const std::string name =
                                     parameter.name.substr(std::string("transformer.").size());
                                 if (name == "wpe.weight") return std::vector<hugging_face::Piece>{};
                                 return std::vector<hugging_face::Piece>{{.name = "decoder." + name}};
                               }});
  tests::initialize(read, 3);
  LanguageModel fresh(tiny_config());
  tests::initialize(fresh, 3);
  for (size_t i = 0; i < read.parameters().size(); ++i) {
    const LanguageModel& from = read.parameters()[i].name == "transformer.wpe.weight" ? fresh : model_;
    EXPECT_TRUE(read.parameters()[i].tensor.equal(from.parameters()[i].tensor)) << read.parameters()[i].name;
  }
}

TEST_F(HuggingFaceTest, EveryDifferenceIsInOneError) {
  auto tensors = bare();
  for (const char* missing : {"h.1.ln_2.bias", "wpe.weight"}) tensors.erase(missing);
  tensors["h.3.ln_1.weight"] = tensors["z\n" + std::string(1000, 'z')] = at::ones({32});
  tensors["h.0.attn.c_attn.weight"] = tensors["h.0.attn.c_attn.weight"].t();
  write(tensors);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("missing (2): transformer.wpe.weight, transformer.h.1.ln_2.bias"),
                    HasSubstr("unexpected (2): h.3.ln_1.weight, z\\x0a" + std::string(198, 'z') + "..."),
                    HasSubstr("h.0.attn.c_attn.weight is [96, 32], must be [32, 96]")));
}

TEST_F(HuggingFaceTest, AnUntiedHeadIsRefused) {
  auto tensors = bare();
  tensors["lm_head.weight"] = tensors.at("wte.weight") + 1;
  write(tensors);
  EXPECT_THAT(error(), HasSubstr("lm_head.weight differs from wte.weight"));
}

TEST_F(HuggingFaceTest, OtherDtypesAreRefused) {
  auto tensors = bare();
  tensors["wte.weight"] = tensors["wte.weight"].to(at::kLong);
  write(tensors);
  EXPECT_THAT(error(), HasSubstr("wte.weight has dtype I64: must be F32, F16, BF16 or F64"));
}

TEST_F(HuggingFaceTest, OtherArchitecturesAreRefused) {
  write_config(R"({"model_type": "llama"})");
  EXPECT_THAT(error(), HasSubstr("task.language.architecture = \"gpt2\", the folder has \"llama\""));
  write_config(R"({"model_type": "bert"})");
  EXPECT_THAT(error(), HasSubstr("config.json: model_type = \"bert\": this is a bert model; accepted are "
                                 "llama, gpt2, mistral, qwen2, qwen3"));
  write_config(R"({"n_layer": "12"})");
  EXPECT_THAT(error(),
              HasSubstr("config.json: model_type is missing: says what the model is; accepted are "));
  write_config(R"({"model_type": "gpt2", "activation_function": "relu"})");
  EXPECT_THAT(error(), HasSubstr("activation_function = \"relu\""));
  write_config(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})");
  EXPECT_THAT(error(), HasSubstr("scale_attn_by_inverse_layer_idx = true: only false"));
  write_config(R"({"model_type": "gpt2", "quantization_config": {"bits": 4}})");
  EXPECT_THAT(error(),
              HasSubstr("quantization_config = {\"bits\":4}: weights that are quantized so (\"unknown\")"));
  write_config(R"({"model_type": "gpt2", "sliding_window": 4})");
  EXPECT_THAT(error(), HasSubstr("sliding_window = 4: is no field of a GPT2Config that is known here"));
  write_config(R"({"model_type": "gpt2", "a\nb": 4})");
  EXPECT_THAT(error(), HasSubstr("config.json: a\\x0ab = 4: is no field of a GPT2Config"));
  write_config(R"({"model_type": "gpt2", "n_layer\u0000": 4})");
  EXPECT_THAT(error(), HasSubstr("n_layer\\x00 = 4: is no field of a GPT2Config"));
  write_config(R"({"model_type": "gpt2", "n_layer": "12"})");
  EXPECT_THAT(error(), HasSubstr("n_layer = \"12\": must be an integer"));
  write_config(R"({"model_type": "gpt2", "n_embd": 30, "n_head": 4})");
  EXPECT_THAT(error(), HasSubstr("n_head = 4: must divide n_embd (30)"));
  write_config(R"({"model_type": "gpt2", "n_layer": 1000000000000})");
  EXPECT_THAT(error(), HasSubstr("n_layer = 1000000000000: must be 1 to 16384"));
  write_config(R"({"model_type": "gpt2", "n_positions": 9223372036854775808})");
  EXPECT_THAT(error(), HasSubstr("n_positions = 9223372036854775808: must be at most 9223372036854775807"));
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_THAT(error(), HasSubstr("config.json: is not there"));
  ASSERT_EQ(::mkfifo((folder_ / "config.json").c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("config.json: is a pipe (FIFO), must be a regular file"));
}

TEST(InitialValueTest, IsAFunctionOfSeedAndIndexWithTheRightSpread) {
  Config config = tiny_config();
  config.hidden_size = 128;
  const LanguageModel model(config);
  const ParameterRegistry& parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor first = at::empty(parameters[i].shape), again = at::empty(parameters[i].shape),
               other = at::empty(parameters[i].shape);
    parameters.initialize(i, 7, first);
    parameters.initialize(i, 7, again);
    parameters.initialize(i, 8, other);
    const std::string& name = parameters[i].name;
    EXPECT_TRUE(first.equal(again)) << name;
    EXPECT_EQ(parameters[i].decay, parameters[i].shape.size() == 2) << name;
    if (parameters[i].shape.size() == 1) {
      EXPECT_TRUE(first.eq(name.ends_with(".bias") ? 0 : 1).all().item<bool>()) << name;
    } else {
      EXPECT_FALSE(first.equal(other)) << name;
      const double expected = name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(6.0) : 0.02;
      EXPECT_NEAR(first.std().item<double>(), expected, 0.05 * expected) << name;
    }
  }
}

}  // namespace
}  // namespace pipeline::language::testing
