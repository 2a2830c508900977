#include "tokenizer/bpe_trainer.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/models/tokenizer/fixtures.hpp"

namespace pipeline::tokenizer {
namespace {

using tests::message_of;

ByteLevelBpe train(const std::vector<std::string>& texts, const TrainerOptions& options) {
  BpeTrainer trainer;
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train(options);
}

// The texts that the fixture was trained on stand among its cases, after the awkward and before the random
// ones.
std::vector<std::string> training_texts() {
  const auto cases = tests::encode_cases();
  const auto starts_with = [](const char* start) {
    return [start](const tests::EncodeCase& entry) { return entry.text.starts_with(start); };
  };
  const auto first = std::find_if(cases.begin(), cases.end(), starts_with("The tokenizer cuts a text"));
  const auto last = std::find_if(first, cases.end(), starts_with("😀 😀 😃"));
  std::vector<std::string> texts;
  for (auto entry = first; entry <= last && entry != cases.end(); ++entry) texts.push_back(entry->text);
  return texts;
}

TEST(BpeTrainer, LearnsWhatHuggingFaceLearns) {
  const std::vector<std::string> texts = training_texts();
  ASSERT_EQ(texts.size(), 16u);
  const ByteLevelBpe tokenizer = train(texts, {.vocab_size = 512, .min_frequency = 2});
  EXPECT_EQ(tokenizer.fingerprint(), tests::trained_tokenizer().fingerprint());
}

TEST(BpeTrainer, OrderAndPartsOfTheTextDoNotMatter) {
  std::vector<std::string> texts = training_texts();
  std::string joined;
  std::reverse(texts.begin(), texts.end());
  for (const std::string& text : texts) joined += text + "\n";
  const ByteLevelBpe parts = train(texts, {.vocab_size = 512});
  EXPECT_EQ(parts.fingerprint(), tests::trained_tokenizer().fingerprint());
  std::reverse(texts.begin(), texts.end());
  std::string other_way;
  for (const std::string& text : texts) other_way += text + "\n";
  EXPECT_EQ(train({joined}, {.vocab_size = 400}).fingerprint(),
            train({other_way}, {.vocab_size = 400}).fingerprint());
}

TEST(BpeTrainer, TheMostFrequentPairComesFirstAndTiesGoToSmallIds) {
  const ByteLevelBpe tokenizer = train({"xyz xyz xyz abc abc"}, {.vocab_size = 300});
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<std::string> learned(vocabulary.tokens.begin() + 256, vocabulary.tokens.end());
  // xy and yz stand three times each; then all pairs stand twice, and of their tokens only a's id is smaller
  // than the space's.
  EXPECT_EQ(learned, (std::vector<std::string>{"xy", "xyz", "ab", " xyz", " ab", " abc", kEndOfText}));
  EXPECT_EQ(tokenizer.eot(), tokenizer.vocab_size() - 1);
}

TEST(BpeTrainer, RarePairsAreLeftAlone) {
  EXPECT_EQ(train({"ab ab ab cd cd"}, {.vocab_size = 300, .min_frequency = 3}).vocab_size(), 256 + 1 + 1);
  EXPECT_EQ(train({"abcdef"}, {.vocab_size = 300}).vocab_size(), 257);
  EXPECT_EQ(train({"abc"}, {.vocab_size = 300, .min_frequency = 1}).vocab_size(), 256 + 2 + 1);
  EXPECT_EQ(train({"abc abc"}, {.vocab_size = 257}).vocab_size(), 257);
}

TEST(BpeTrainer, NoTokenIsMadeInTwoWays) {
  // Words over two letters, in which every token could be cut in many ways. The loader refuses what stands
  // twice.
  std::vector<std::string> texts;
  uint32_t state = 1;
  for (int i = 0; i < 3'000; ++i) {
    std::string word;
    for (int n = 0; n < 12; ++n) {
      state = state * 1664525 + 1013904223;
      word += (state >> 24) % 3 == 0 ? 'b' : 'a';
    }
    texts.push_back(word);
  }
  const ByteLevelBpe tokenizer = train(texts, {.vocab_size = 700});
  EXPECT_EQ(tokenizer.vocabulary().merges.size(), 443u);
  const tests::FilesFolder folder;
  tokenizer.save(folder.path());
  EXPECT_EQ(ByteLevelBpe::load(folder.path()).fingerprint(), tokenizer.fingerprint());
  for (const std::string& text : texts) ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(BpeTrainer, LongPiecesAreCountedInPartsAndCharactersStayWhole) {
  const auto last_learned = [](const std::string& text) {
    const ByteLevelBpe tokenizer = train({text}, {.vocab_size = 20'000, .min_frequency = 1});
    return tokenizer.vocabulary().tokens[static_cast<size_t>(tokenizer.vocab_size()) - 2];
  };
  const std::string whole = std::string(511, 'a') + 'b';
  EXPECT_EQ(last_learned(whole), whole);
  EXPECT_EQ(last_learned('a' + whole), std::string(512, 'a'));
  EXPECT_EQ(last_learned(std::string(511, 'a') + "ü"), std::string(511, 'a'));
}

TEST(BpeTrainer, ProgressIsToldAndTrainingCanBeStopped) {
  std::vector<int32_t> told;
  const std::string text = "abc abc abd";
  train({text},
        {.vocab_size = 260, .min_frequency = 1, .on_token = [&](int32_t tokens) { told.push_back(tokens); }});
  EXPECT_EQ(told, (std::vector<int32_t>{257, 258, 259}));
  EXPECT_THROW(train({text}, {.vocab_size = 260,
                              .min_frequency = 1,
                              .on_token = [](int32_t) { throw std::runtime_error("stop"); }}),
               std::runtime_error);
}

TEST(BpeTrainer, MisuseIsAnError) {
  EXPECT_EQ(message_of<TokenizerError>([] { train({"a"}, {.vocab_size = 256}); }),
            "vocab_size = 256: must be at least 257: 256 bytes and <|endoftext|>");
  EXPECT_EQ(message_of<TokenizerError>([] {
              train({"", ""}, {});
            }),
            "a tokenizer cannot be trained without text");
}

}  // namespace
}  // namespace pipeline::tokenizer
