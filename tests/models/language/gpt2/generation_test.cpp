#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "generation/generate.hpp"
#include "tiny_model.hpp"

namespace pipeline::language::testing {
namespace {

using generation::choose_token;
using generation::Decoder;
using generation::generate;
using generation::GenerationOptions;
using generation::Prompt;
using generation::uniform;
using transformer::pack;
using Sequences = std::vector<std::vector<int64_t>>;

Sequences without_end(const nlohmann::json& recorded, int64_t eos) {
  Sequences sequences = recorded.get<Sequences>();
  for (auto& tokens : sequences) {
    if (!tokens.empty() && tokens.back() == eos) tokens.pop_back();
  }
  return sequences;
}

class GenerationTest : public ::testing::Test {
 protected:
  GenerationTest() : model_(tiny_config()) {
    fill_by_formula(model_);
    for (const auto& tokens : fixture()["prompts"].get<Sequences>())
      prompts_.push_back({prompts_.size() + 100, tokens});
    options_.max_new_tokens = 12;
    options_.eos_token_ids = {fixture()["eos_token_id"]};
  }

  // What is generated when each prompt is a batch of its own.
  Sequences one_by_one() {
    Sequences results;
    for (const Prompt& prompt : prompts_) results.push_back(generate(model_, {prompt}, options_).front());
    return results;
  }

  LanguageModel model_;
  std::vector<Prompt> prompts_;
  GenerationOptions options_;
};

TEST_F(GenerationTest, GreedyIsThatOfTransformers) {
  EXPECT_EQ(generate(model_, prompts_, options_),
            without_end(fixture()["greedy"], options_.eos_token_ids.front()));
}

TEST_F(GenerationTest, BeamSearchIsThatOfTransformers) {
  options_.beams = 4;
  ASSERT_FALSE(fixture()["beam"].empty());
  for (const auto& [penalty, expected] : fixture()["beam"].items()) {
    options_.length_penalty = std::stod(penalty);
    EXPECT_EQ(generate(model_, prompts_, options_), without_end(expected, options_.eos_token_ids.front()))
        << "penalty " << penalty;
  }
}

TEST_F(GenerationTest, EachEndTokenEndsAText) {
  options_.eos_token_ids = {};
  Sequences expected = generate(model_, prompts_, options_);
  options_.eos_token_ids = {84, expected[0][2], expected[1][5]};
  for (auto& tokens : expected)
    tokens.erase(std::find_if(tokens.begin(), tokens.end(), [&](int64_t t) { return options_.ends(t); }),
                 tokens.end());
  EXPECT_EQ(generate(model_, prompts_, options_), expected);
}

TEST_F(GenerationTest, TheBatchDoesNotChangeASample) {
  options_.sampling = {.temperature = 1.5, .top_k = 40, .top_p = 0.95};
  EXPECT_EQ(generate(model_, prompts_, options_), one_by_one());
  options_.beams = 3;
  EXPECT_EQ(generate(model_, prompts_, options_), one_by_one());
}

TEST_F(GenerationTest, LogitsOfASlotAreTheSameBitsInAnyBatch) {
  std::vector<std::vector<int64_t>> tokens;
  for (const Prompt& prompt : prompts_) tokens.push_back(prompt.tokens);
  Decoder together(model_, tokens, 1, 2);
  const at::Tensor first = together.prompt_logits();
  const at::Tensor second =
      together.append(std::vector<int64_t>{0, 1, 2, 3}, std::vector<int64_t>{7, 8, 9, 10});
  for (int64_t p = 0; p < static_cast<int64_t>(tokens.size()); ++p) {
    Decoder alone(model_, {tokens[static_cast<size_t>(p)]}, 1, 2);
    EXPECT_TRUE(alone.prompt_logits()[0].equal(first[p]));
    EXPECT_TRUE(alone.append(std::vector<int64_t>{0}, std::vector<int64_t>{7 + p})[0].equal(second[p]));
  }
}

TEST_F(GenerationTest, TheCacheGivesTheLogitsOfTheWholeSequence) {
  Decoder decoder(model_, {prompts_[1].tokens}, 1, 3);
  decoder.prompt_logits();
  std::vector<int64_t> tokens = prompts_[1].tokens;
  for (const int64_t next : {3, 50, 20}) {
    tokens.push_back(next);
    const at::Tensor cached = decoder.append(std::vector<int64_t>{0}, std::vector<int64_t>{next});
    const PackedBatch batch = pack({tokens}, {std::vector<int64_t>(tokens.size(), -1)});
    const at::Tensor whole = model_.logits(batch, at::tensor({batch.sequences.rows() - 1}, at::kLong));
    EXPECT_LT((cached - whole).abs().max().item<float>(), 1e-5f);
  }
}

// The cache is memory that was used before; here all of what is free holds what must never be read.
TEST_F(GenerationTest, WhatWasInTheCachesMemoryDoesNotMatterInBf16) {
  const int64_t capacity = static_cast<int64_t>(prompts_[1].tokens.size()) + 3;
  {
    std::vector<at::Tensor> poison;
    for (int i = 0; i < 256; ++i)
      poison.push_back(at::full({capacity, 2 * tiny_config().hidden_size}, NAN, at::kBFloat16));
  }
  Decoder decoder(model_, {prompts_[1].tokens}, 1, 3, at::kBFloat16);
  decoder.prompt_logits();
  std::vector<int64_t> tokens = prompts_[1].tokens;
  for (const int64_t next : {3, 50, 20}) {
    tokens.push_back(next);
    const at::Tensor cached = decoder.append(std::vector<int64_t>{0}, std::vector<int64_t>{next});
    const PackedBatch batch = pack({tokens}, {std::vector<int64_t>(tokens.size(), -1)});
    const at::Tensor whole =
        model_.logits(batch, at::tensor({batch.sequences.rows() - 1}, at::kLong), at::kBFloat16);
    EXPECT_LT((cached - whole).abs().max().item<float>(), 0.02 * whole.abs().max().item<float>());
  }
}

TEST_F(GenerationTest, SamplesDependOnSeedAndIdAlone) {
  options_.sampling.temperature = 2;
  const Sequences first = generate(model_, prompts_, options_);
  EXPECT_EQ(generate(model_, prompts_, options_), first);
  options_.seed = 1;
  EXPECT_NE(generate(model_, prompts_, options_), first);
  options_.seed = 0;
  for (Prompt& prompt : prompts_) prompt.id += 1;
  EXPECT_NE(generate(model_, prompts_, options_), first);
}

TEST_F(GenerationTest, PromptsThatDoNotFitAreRefused) {
  prompts_.push_back({9, std::vector<int64_t>(21, 1)});
  EXPECT_THROW(
      {
        try {
          generate(model_, prompts_, options_);
        } catch (const c10::Error& error) {
          EXPECT_THAT(error.what_without_backtrace(),
                      ::testing::HasSubstr(
                          "prompt 4 has 21 tokens: with 12 new ones that is more than the model takes (32)"));
          throw;
        }
      },
      c10::Error);
}

TEST(SamplingTest, TopKAndTopPLeaveTheLikeliest) {
  const std::vector<float> logits = {0.0f, 3.0f, 1.0f, 2.0f};  // in order: 1, 3, 2, 0
  EXPECT_EQ(choose_token(logits, {}, 0.99), 1);
  EXPECT_EQ(choose_token(logits, {.temperature = 1, .top_k = 2}, 0.999), 3);
  EXPECT_EQ(choose_token(logits, {.temperature = 1, .top_p = 0.5}, 0.999), 1);  // token 1 alone has 64%
  EXPECT_EQ(choose_token(logits, {.temperature = 1, .top_p = 0.7}, 0.999), 3);  // 64% + 24%
  EXPECT_EQ(choose_token(logits, {.temperature = 1}, 0.999), 0);
}

TEST(SamplingTest, DrawsFollowTheProbabilities) {
  const std::vector<float> logits = {0.0f, std::log(3.0f)};  // 25% and 75%
  int ones = 0;
  for (uint64_t step = 0; step < 10000; ++step) {
    ones += choose_token(logits, {.temperature = 1}, uniform(1, 2, step)) == 1;
  }
  EXPECT_NEAR(ones, 7500, 150);
}

}  // namespace
}  // namespace pipeline::language::testing
