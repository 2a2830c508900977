// Folders of LlamaForCausalLM, and what is learnt beside a model. tests/parity compares with transformers.
#include "language/folder.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include <cmath>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"
#include "generation/decoder.hpp"
#include "language/options.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::language {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using tests::FilesFolder;
using tests::message_of;

Config tiny() {
  return {.vocab_size = 19,
          .max_position_embeddings = 64,
          .hidden_size = 8,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .intermediate_size = 12,
          .tie_word_embeddings = false};
}

// What is read from a folder whose config.json has these values besides a tiny model's.
Config read(const json& values) {
  FilesFolder folder;
  json config = config_json(tiny());
  config.update(values);
  folder.write("config.json", config.dump());
  return read_config(hugging_face::ConfigFile(folder / "config.json"));
}

std::string refused(const json& values) {
  const std::string message = message_of<Error>([&] { read(values); });
  return message.substr(message.find("config.json"));
}

const json kLlama3{{"rope_type", "llama3"},
                   {"factor", 32.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0},
                   {"original_max_position_embeddings", 8192}};

TEST(RopeScaling, IsReadAndWritten) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Config config = read({{key, kLlama3}, {"rope_theta", 500000.0}});
    EXPECT_EQ(config.rope_scaling.type, "llama3");
    EXPECT_EQ(config.rope_scaling.factor, 32);
    EXPECT_EQ(config.rope_theta, 500000);
    EXPECT_EQ(config_json(config)["rope_scaling"], kLlama3) << "as it was";
  }
  const Config old = read({{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}});
  EXPECT_EQ(config_json(old)["rope_scaling"], json({{"rope_type", "linear"}, {"factor", 4.0}}));
  const Config dynamic = read({{"rope_scaling", {{"type", "dynamic"}, {"factor", 4.0}}}});
  EXPECT_EQ(config_json(dynamic)["rope_scaling"], json({{"rope_type", "dynamic"}, {"factor", 4.0}}));
  EXPECT_FALSE(config_json(read({{"rope_scaling", nullptr}})).contains("rope_scaling"));
  EXPECT_EQ(read({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}}).rope_theta, 7);
}

// transformers' defaults: the original length is max_position_embeddings, 64, a factor of null the quotient
// of both, and 0 turns are none.
TEST(RopeScaling, WhatAFolderDoesNotSayIsWhatItsClassTakes) {
  const auto yarn = [](json values) {
    values["rope_type"] = "yarn";
    return read({{"rope_parameters", values}}).rope_scaling;
  };
  EXPECT_EQ(yarn({{"factor", 4.0}}).original_max_position_embeddings, 64);
  EXPECT_EQ(yarn({{"factor", nullptr}, {"original_max_position_embeddings", 16}}).factor, 4);
  EXPECT_EQ(yarn({{"factor", 4.0}, {"beta_fast", 0}, {"beta_slow", nullptr}}).beta_fast, 32);
  EXPECT_FALSE(yarn({{"factor", 4.0}, {"truncate", false}}).truncate);
  EXPECT_NEAR(yarn({{"factor", nullptr},
                    {"original_max_position_embeddings", 16},
                    {"mscale", 2.0},
                    {"mscale_all_dim", 1.0}})
                  .magnitude(),
              (0.2 * std::log(4) + 1) / (0.1 * std::log(4) + 1), 1e-12);
}

TEST(RopeScaling, WhatIsNotComputedIsRefused) {
  EXPECT_EQ(refused({{"rope_scaling", {{"rope_type", "proportional"}, {"factor", 4.0}}}}),
            "config.json: rope_scaling: rope_type = \"proportional\": only \"default\", \"linear\", "
            "\"dynamic\", \"llama3\", \"yarn\" and \"longrope\" are computed here");
  EXPECT_THAT(refused({{"rope_scaling",
                        {{"rope_type", "longrope"},
                         {"short_factor", {1.0}},
                         {"long_factor", {1.0}},
                         {"original_max_position_embeddings", 8}}}}),
              HasSubstr("rope_scaling.short_factor has 1 numbers: must be one above 0 for each pair of a "
                        "head's channels ("));
  EXPECT_EQ(refused({{"rope_scaling",
                      {{"type", "yarn"},
                       {"factor", 4.0},
                       {"original_max_position_embeddings", 8},
                       {"beta_fast", 0.5}}}}),
            "config.json: rope_scaling.beta_fast = 0.5: must not be below beta_slow (1)");
  json part = kLlama3;
  part.erase("low_freq_factor");
  EXPECT_EQ(refused({{"rope_scaling", part}}),
            "config.json: rope_scaling: rope_type = \"llama3\": needs low_freq_factor, which is missing");
  json wrong = kLlama3;
  wrong["high_freq_factor"] = 1.0;
  EXPECT_EQ(refused({{"rope_scaling", wrong}}),
            "config.json: rope_scaling.high_freq_factor = 1: must be above low_freq_factor (1)");
  wrong = kLlama3;
  wrong["factor"] = 0.5;
  EXPECT_EQ(refused({{"rope_scaling", wrong}}), "config.json: rope_scaling.factor = 0.5: must be at least 1");
}

TEST(RopeScaling, EveryDifferenceFromAFolderIsNamed) {
  Config ours = tiny(), theirs = tiny();
  theirs.rope_scaling = {.type = "llama3", .factor = 32};
  hugging_face::Differences differences;
  compare(ours, theirs, differences);
  const std::string message = message_of<Error>([&] { differences.raise("folder"); });
  EXPECT_THAT(message, HasSubstr("task.language.rope_scaling.type = \"default\", the folder has \"llama3\""));
  EXPECT_THAT(message, HasSubstr("task.language.rope_scaling.factor = 8.0, the folder has 32.0"));
}

// Long waves are stretched, short ones are not. Of Llama 3.2's, the 13th pair of channels turns 6.3 times in
// the original length, more than 4.
TEST(RopeScaling, Llama3StretchesLongWavesAlone) {
  const RopeScaling scaling{.type = "llama3", .factor = 32};
  const at::Tensor plain = RopeScaling().frequencies(64, 500000), scaled = scaling.frequencies(64, 500000);
  EXPECT_EQ(scaled[0].item<float>(), 1.0f);
  EXPECT_EQ(scaled[13].item<float>(), plain[13].item<float>());
  EXPECT_LT(scaled[15].item<float>(), plain[15].item<float>());
  EXPECT_EQ(scaled[31].item<float>(), plain[31].item<float>() / 32);
}

// A sequence that outgrows the original length has other positions, those of its first tokens too: what was
// kept of these is made anew, for each sequence by itself, for all beams, also where they change places.
TEST(RopeScaling, ASequenceThatBecomesLongIsReadAgain) {
  Config config = tiny();
  config.rope_scaling = {.type = "longrope",
                         .factor = 4,
                         .short_factor = {1, 1.1},
                         .long_factor = {3, 9},
                         .original_max_position_embeddings = 5};
  const LanguageModel model(config);
  tests::initialize(model, 3);
  const at::NoGradGuard no_grad;
  const auto last = [&](const std::vector<int64_t>& tokens) {
    const auto batch = transformer::pack({tokens}, {std::vector<int64_t>(tokens.size(), -1)});
    return model.logits(batch, at::tensor({static_cast<int64_t>(tokens.size()) - 1}));
  };
  std::vector<std::vector<int64_t>> texts{{3, 17}, {5, 5, 9, 11}, {1, 2, 3, 4, 5, 6}};
  generation::Decoder decoder(model, texts, 2, 8);
  decoder.prompt_logits();
  const std::vector<int64_t> slots{0, 1, 2, 3, 4, 5};
  for (int64_t step = 0; step < 6; ++step) {
    std::vector<int64_t> tokens;
    for (const int64_t slot : slots) tokens.push_back((7 * step + 3 * (slot % 2) + slot) % 19);
    const at::Tensor made = decoder.append(slots, tokens);
    for (size_t prompt = 0; prompt < texts.size(); ++prompt) {
      const auto slot = static_cast<int64_t>(2 * prompt + 1);  // both go on from the second
      texts[prompt].push_back(tokens[static_cast<size_t>(slot)]);
      EXPECT_TRUE(made[slot].allclose(last(texts[prompt])[0], 1e-4, 1e-5)) << step << " " << prompt;
      decoder.reorder(static_cast<int64_t>(prompt), std::vector<int64_t>{1, 1});
    }
  }
}

// Sequences of 5, 1 and 3 tokens; and rows that are each the next of a sequence.
TEST(RopeScaling, ASequenceIsLongByItsLastToken) {
  const RopeScaling scaling{.type = "longrope", .original_max_position_embeddings = 3};
  const at::Tensor whole = at::tensor({0, 1, 2, 3, 4, 0, 0, 1, 2}, at::kLong);
  EXPECT_TRUE(scaling.is_long(whole).equal(at::tensor({1, 1, 1, 1, 1, 0, 0, 0, 0}).to(at::kBool)));
  EXPECT_TRUE(scaling.is_long(at::tensor({2, 3, 1}, at::kLong)).equal(at::tensor({0, 1, 0}).to(at::kBool)));
}

// The folder of a model of random weights, in as many files as `shards`.
void write_folder(const FilesFolder& folder, const LanguageModel& model, size_t shards) {
  export_model(folder.path(), model);
  if (shards == 1) return;
  const auto whole = safetensors::Folder::open(folder.path());
  const std::vector<std::string> names = whole.names();
  json map;
  for (size_t shard = 0; shard < shards; ++shard) {
    const std::string file = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
    safetensors::Writer writer(folder / file);
    for (size_t i = shard; i < names.size(); i += shards) {
      writer.declare(names[i], safetensors::Dtype::kF32, whole.at(names[i]).shape);
      map[names[i]] = file;
    }
    for (const auto& info : writer.layout()) writer.write(info.name, whole.at(info.name).data);
    writer.finish();
  }
  folder.write("model.safetensors.index.json",
               json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}}.dump());
  std::filesystem::remove(folder / "model.safetensors");
}

TEST(LlamaFolder, OneFileAndShardsAreTheSameModel) {
  for (const size_t shards : {1, 2}) {
    FilesFolder folder;
    LanguageModel model(tiny()), again(tiny());
    tests::initialize(model, 3);
    write_folder(folder, model, shards);
    import_model(folder.path(), again);
    tests::initialize(again, 4);
    for (size_t i = 0; i < model.parameters().size(); ++i)
      EXPECT_TRUE(model.parameters()[i].tensor.equal(again.parameters()[i].tensor))
          << model.parameters()[i].name << " of " << shards << " file(s)";
  }
}

TEST(LlamaFolder, TheVocabularyMayHaveMoreTokensThanTheTokenizer) {
  FilesFolder folder;
  Config fewer = tiny();
  fewer.vocab_size = 17;
  LanguageModel model(tiny()), again(fewer);
  tests::initialize(model, 3);
  export_model(folder.path(), model);
  import_model(folder.path(), again);
  tests::initialize(again, 4);
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const at::Tensor &theirs = model.parameters()[i].tensor, &ours = again.parameters()[i].tensor;
    EXPECT_TRUE(theirs.narrow(0, 0, ours.size(0)).equal(ours)) << model.parameters()[i].name;
  }
}

TEST(LlamaFolder, AMissingShardIsNamed) {
  FilesFolder folder;
  LanguageModel model(tiny());
  tests::initialize(model, 3);
  write_folder(folder, model, 2);
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_THAT(message_of<std::exception>([&] { import_model(folder.path(), model); }),
              HasSubstr("model-00002-of-00002.safetensors"));
}

// A model with LoRA of random values for all matrices.
LanguageModel with_lora() {
  LanguageModel model(tiny(), {}, {.rank = 3, .alpha = 6, .targets = {"*"}});
  tests::initialize(model, 3);
  at::manual_seed(1);
  for (const auto& [name, value] : tests::named(model))
    if (name.ends_with(".up")) at::Tensor(value).detach().normal_(0, 0.3);
  return model;
}

at::Tensor find(const LanguageModel& model, const std::string& wanted) {
  for (const auto& [name, value] : tests::named(model))
    if (name == wanted) return value;
  ADD_FAILURE() << "no parameter " << wanted;
  return {};
}

// The chain rule, from the gradients of the merged matrices.
TEST(Lora, LossAndGradientsAreThoseOfTheMergedModel) {
  const LanguageModel model = with_lora();
  LanguageModel merged(tiny());
  FilesFolder folder;
  export_model(folder.path(), model);
  import_model(folder.path(), merged);
  tests::initialize(merged);
  const PackedBatch batch = transformer::pack({{1, 5, 3, 18, 7}, {2, 2, 9}}, {{5, 3, 18, 7, 0}, {-1, 9, 4}});
  const LossSum ours = model.loss(batch, {}), theirs = merged.loss(batch, {});
  EXPECT_NEAR(ours.sum.item<double>(), theirs.sum.item<double>(), 1e-5);
  ours.scaled.backward();
  theirs.scaled.backward();
  struct Part {
    const char *target, *matrix;
    int64_t first, columns;
  };
  for (const Part& part : {Part{"self_attn.q_proj", "self_attn.qkv_proj", 0, 8},
                           {"self_attn.k_proj", "self_attn.qkv_proj", 8, 4},
                           {"self_attn.v_proj", "self_attn.qkv_proj", 12, 4},
                           {"self_attn.o_proj", "self_attn.o_proj", 0, 8},
                           {"mlp.gate_proj", "mlp.gate_up_proj", 0, 12},
                           {"mlp.up_proj", "mlp.gate_up_proj", 12, 12},
                           {"mlp.down_proj", "mlp.down_proj", 0, 8}}) {
    const std::string layer = "model.layers.1.", lora = "lora." + layer + part.target;
    const at::Tensor down = find(model, lora + ".down"), up = find(model, lora + ".up");
    const at::Tensor slope =
        find(merged, layer + part.matrix + ".weight").grad().narrow(1, part.first, part.columns) *
        2;  // alpha / rank
    EXPECT_GT(slope.abs().max().item<float>(), 1e-5f);
    const auto expect_close = [&](const at::Tensor& mine, const at::Tensor& other) {
      EXPECT_LT((mine - other).norm().item<float>(), 1e-4f * other.norm().item<float>() + 1e-7f) << lora;
    };
    expect_close(down.grad(), slope.mm(up.detach().t()));
    expect_close(up.grad(), down.detach().t().mm(slope));
  }
}

TEST(Lora, TargetsAreChecked) {
  const auto problem = [](const std::vector<std::string>& targets) {
    return message_of<Error>([&] { LanguageModel(tiny(), {}, {.rank = 2, .targets = targets}); });
  };
  EXPECT_EQ(
      problem({"q_proj", "qkv_proj"}),
      "lora.targets has \"qkv_proj\", which is no matrix of the model: there are, for example, down_proj, "
      "gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj; the first is model.layers.0.self_attn.q_proj");
  EXPECT_EQ(problem({"layers.7.*"}).substr(0, 32), "lora.targets has \"layers.7.*\", w");
}

// Rows of an embedding that no token has are the model's, and are never written.
TEST(Vocabulary, RowsWithoutATokenStayAndAreNotGenerated) {
  LanguageOptions options;
  options.vocab_size = 24;
  const Config padded = options.model({19, 1, 2});
  EXPECT_EQ(padded.vocab_size, 24);
  EXPECT_EQ(padded.written_tokens, 19);
  EXPECT_EQ(options.model({30, 1, 2}).vocab_size, 30) << "tokens that were added have rows, too";
  Config config = tiny();
  config.vocab_size = 24, config.written_tokens = 19;
  const LanguageModel model(config);
  tests::initialize(model, 3);
  const at::Tensor x = at::ones({2, 8});
  EXPECT_EQ(model.logits_of(x, at::kFloat).size(1), 19);
  const auto batch = transformer::pack({{1, 2}}, {{2, -1}});
  EXPECT_EQ(model.logits(batch, at::zeros({1}, at::kLong)).size(1), 24);
}

}  // namespace
}  // namespace pipeline::language
