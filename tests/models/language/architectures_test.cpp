// What holds for every architecture of the table. tests/parity/language_parity.py compares them with
// transformers.
#include "language/architecture.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <pipeline/error.hpp>

#include "generation/decoder.hpp"
#include "language/folder.hpp"
#include "language/options.hpp"
#include "tests/support/declared.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::language {
namespace {

using tests::FilesFolder;
using tests::message_of;

class Architectures : public ::testing::TestWithParam<const Architecture*> {
 protected:
  // Small, with all that the architecture has: layers of both kinds, a window that sequences are longer than.
  static Config tiny() {
    Config config = GetParam()->defaults;
    config.vocab_size = 31;
    config.max_position_embeddings = 64;
    config.hidden_size = 24;
    config.num_hidden_layers = 3;
    config.num_attention_heads = 4;
    if (config.num_key_value_heads > 0) config.num_key_value_heads = 2;
    if (config.head_dim > 0) config.head_dim = 8;
    config.intermediate_size = 40;
    if (config.sliding_window > 0) config.sliding_window = 5;
    if (config.max_window_layers > 0) config.max_window_layers = 1;
    if (config.full_attention_every > 0) config.full_attention_every = 2;
    if (GetParam()->has(&Config::no_rope_layers)) config.no_rope_layers = {1, 0, 1};
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
    config.bos_token_id = config.eos_token_id = 1;
    return config;
  }
  static LanguageModel model(uint64_t seed = 3) {
    LanguageModel made(tiny());
    tests::initialize(made, seed);
    at::manual_seed(seed);
    for (const at::Tensor& value : tests::tensors(made))  // norms and biases that are not 1 and 0
      value.detach().add_(at::randn_like(value) * 0.1);
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Architectures,
                         ::testing::ValuesIn(architectures().begin(), architectures().end()),
                         [](const auto& is) { return std::string(is.param->name); });

const std::vector<int64_t> kTokens{3, 17, 30, 5, 5, 9, 0, 22, 14, 8, 11, 2, 29, 7};

TEST_P(Architectures, AFolderHoldsTheSameModel) {
  const FilesFolder folder;
  const LanguageModel saved = model();
  for (const at::Tensor& value : tests::tensors(saved))  // norms whose weights lose bits beside 1
    if (value.dim() == 1) value.detach().mul_(1e-6);
  export_model(folder.path(), saved);
  const Config read = read_config(hugging_face::ConfigFile(folder / "config.json"));
  Config expected = saved.config();
  expected.num_key_value_heads = read.num_key_value_heads;  // 0 and as many as heads are one
  expected.head_dim = read.head_dim;
  EXPECT_TRUE(read == expected) << config_json(read).dump(1) << config_json(expected).dump(1);
  LanguageModel again(read);
  import_model(folder.path(), again);
  tests::initialize(again, 4);
  for (size_t i = 0; i < saved.parameters().size(); ++i)
    EXPECT_TRUE(saved.parameters()[i].tensor.equal(again.parameters()[i].tensor))
        << saved.parameters()[i].name;
}

TEST_P(Architectures, TokenByTokenTheLogitsAreThoseOfTheWholeText) {
  const LanguageModel whole = model();
  const at::NoGradGuard no_grad;
  const auto batch = transformer::pack({kTokens}, {std::vector<int64_t>(kTokens.size(), -1)});
  const at::Tensor all = whole.logits(batch, at::arange(batch.sequences.rows(), at::kLong));
  generation::Decoder decoder(whole, {{kTokens[0], kTokens[1]}}, 1, static_cast<int64_t>(kTokens.size()));
  std::vector<at::Tensor> made{decoder.prompt_logits()};
  const std::vector<int64_t> slot{0};
  for (size_t i = 2; i < kTokens.size(); ++i) made.push_back(decoder.append(slot, std::span(&kTokens[i], 1)));
  const at::Tensor expected = all.narrow(0, 1, all.size(0) - 1);
  EXPECT_TRUE(at::cat(made).allclose(expected, 1e-4, 1e-5)) << (at::cat(made) - expected).abs().max();
}

// The last layer is computed at chosen rows alone, with their own windows.
TEST_P(Architectures, TheLossOfSomeTokensIsTheirShareOfAll) {
  const LanguageModel one = model();
  const at::NoGradGuard no_grad;
  const auto loss_of = [&](const std::function<bool(size_t)>& has_target) {
    std::vector<int64_t> targets;
    for (size_t i = 0; i < kTokens.size(); ++i) targets.push_back(has_target(i) ? kTokens[(i + 1) % 14] : -1);
    return one.loss(transformer::pack({kTokens}, {targets}), {}).sum.item<double>();
  };
  const double all = loss_of([](size_t) { return true; });
  EXPECT_NEAR(loss_of([](size_t i) { return i % 3 == 0; }) + loss_of([](size_t i) { return i % 3 != 0; }),
              all, 1e-5 * all);
}

// What a task has by its options alone, with and without layers that see all, is what its folder says.
TEST_P(Architectures, AFreshModelsFolderIsThatModel) {
  for (const int64_t every : {0, 2}) {
    LanguageOptions options;
    options.architecture = GetParam()->name;
    options.hidden_size = 24, options.num_hidden_layers = 3, options.num_attention_heads = 4;
    if (GetParam()->has(&Config::sliding_window)) options.sliding_window = 5;
    if (GetParam()->has(&Config::query_pre_attn_scalar)) options.full_attention_every = every;
    if (GetParam()->has(&Config::rope_local_theta)) options.rope_scaling.type = "linear";
    if (every == 2 && (GetParam()->has(&Config::max_window_layers) || options.full_attention_every > 0))
      options.layer_types = {"sliding_attention", "full_attention", "sliding_attention"};
    const LanguageModel saved(options.model({31, 1, 2}));
    tests::initialize(saved, 3);
    const FilesFolder folder;
    export_model(folder.path(), saved);
    LanguageModel again(read_config(hugging_face::ConfigFile(folder / "config.json")));
    import_model(folder.path(), again);
    tests::initialize(again, 4);
    const at::NoGradGuard no_grad;
    const auto batch = transformer::pack({kTokens}, {std::vector<int64_t>(kTokens.size(), -1)});
    const at::Tensor rows = at::arange(batch.sequences.rows(), at::kLong);
    EXPECT_TRUE(again.logits(batch, rows).allclose(saved.logits(batch, rows), 1e-4, 1e-5)) << every;
  }
}

// While `up` is zero its gradient is linear in what is dropped, so that the mean over many masks is the
// gradient without any.
TEST_P(Architectures, InputOfLoraIsDroppedInTrainingAlone) {
  LanguageModel one(tiny(), {}, {.rank = 2, .dropout = 0.5, .targets = {"*"}});
  tests::initialize(one, 3);
  const auto batch = transformer::pack({kTokens}, {{17, 30, 5, 5, 9, 0, 22, 14, 8, 11, 2, 29, 7, 1}});
  const auto slopes = [&](const ForwardPass& pass) {
    tests::zero_gradients(one);
    one.loss(batch, pass).scaled.backward();
    std::vector<at::Tensor> found;
    for (const auto& parameter : one.parameters())
      if (parameter.name.ends_with(".up")) found.push_back(parameter.tensor.grad().clone());
    return found;
  };
  const auto plain = slopes({}), first = slopes({.training = true, .dropout_seed = 1}),
             again = slopes({.training = true, .dropout_seed = 1});
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(first[i].equal(again[i])) << i;
    EXPECT_GT((first[i] - plain[i]).norm().item<float>(), 0.2f * plain[i].norm().item<float>()) << i;
  }
  const std::string name = GetParam()->name;
  if (name != "llama" && name != "gpt2") return;  // the others' LoRA is that of a Llama
  std::vector<at::Tensor> mean;
  for (const at::Tensor& slope : plain) mean.push_back(at::zeros_like(slope));
  constexpr int kMasks = 400;
  for (uint64_t seed = 1; seed <= kMasks; ++seed) {
    const auto some = slopes({.training = true, .dropout_seed = seed});
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += some[i] / kMasks;
  }
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_LT((mean[i] - plain[i]).norm().item<float>(), 0.2f * plain[i].norm().item<float>()) << i;
}

std::string refused(const char* architecture, nlohmann::json values) {
  const FilesFolder folder;
  nlohmann::json config = config_json(language::architecture(architecture).defaults);
  config.update(values);
  folder.write("config.json", config.dump());
  const std::string message =
      message_of<Error>([&] { read_config(hugging_face::ConfigFile(folder / "config.json")); });
  return message.substr(std::min(message.size(), message.find("config.json")));
}

TEST(Architecture, WhatAFolderCannotMeanIsNamed) {
  for (const nlohmann::json& types : {nlohmann::json("x"), nlohmann::json::object(), nlohmann::json::array(),
                                      nlohmann::json::array({"full_attention"})})
    EXPECT_THAT(refused("gemma2", {{"layer_types", types}}),
                ::testing::HasSubstr("must be a list of num_hidden_layers (26) names"));
  EXPECT_THAT(refused("qwen3", {{"layer_types", "x"}}), ::testing::HasSubstr("layer_types"));
  const std::vector<const char*> windows{"full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(
      refused("qwen2", {{"num_hidden_layers", 3}, {"use_sliding_window", true}, {"layer_types", windows}}),
      "")
      << "in any order";
  EXPECT_THAT(refused("qwen2", {{"num_hidden_layers", 1}, {"layer_types", {"chunked_attention"}}}),
              ::testing::HasSubstr("layer 0 is \"chunked_attention\" and must be full_attention or sliding"));
  EXPECT_THAT(
      refused("qwen2", {{"num_hidden_layers", 3}, {"use_sliding_window", false}, {"layer_types", windows}}),
      ::testing::HasSubstr("layer 1 is \"sliding_attention\" and must be full_attention: no window"));
  EXPECT_THAT(refused("llama", {{"architectures", {"LlamaForSequenceClassification"}}}),
              ::testing::HasSubstr("the folder's head is not a language model's"));
  EXPECT_EQ(refused("llama", {{"architectures", {"LlamaForCausalLM"}}}), "");
  EXPECT_THAT(refused("qwen3", {{"head_dim", 127}}),
              ::testing::HasSubstr("head_dim = 127: gives heads of 127"));
  EXPECT_THAT(refused("gemma3_text", {{"attn_logit_softcapping", 50.0}}),
              ::testing::HasSubstr("attn_logit_softcapping = 50.0"));
  EXPECT_THAT(
      refused("qwen2", {{"rope_theta", 1.0},
                        {"rope_scaling",
                         {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8}}}}),
      ::testing::HasSubstr("rope_theta = 1: must be above 1"));
}

TEST(Architecture, NullIsAnotherValueThanNone) {
  const FilesFolder folder;
  nlohmann::json config = config_json(architecture("mistral").defaults);
  config["num_key_value_heads"] = config["sliding_window"] = nullptr;
  folder.write("config.json", config.dump());
  const Config read = read_config(hugging_face::ConfigFile(folder / "config.json"));
  EXPECT_EQ(read.key_heads(), 32);
  EXPECT_EQ(read.sliding_window, 0);
}

TEST(Architecture, OneThatIsNotThereIsNamedWithThoseThatAre) {
  EXPECT_THAT(message_of<Error>([] { architecture("bert"); }),
              ::testing::StartsWith("architecture = \"bert\": must be one of llama, gpt2, "));
}

}  // namespace
}  // namespace pipeline::language
